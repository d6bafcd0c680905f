// The error for a command line that cannot work as it is written. `import` and `export` exit with 2 for it.
import { StartError } from '../platform/base/errors.ts';

export class UsageError extends StartError {
  override readonly name = 'UsageError';
}

/** Rethrows a StartError of something that the command line names as a UsageError. */
export const throwUsage = (error: unknown): never => {
  throw error instanceof StartError ? new UsageError(error.message) : error;
};
