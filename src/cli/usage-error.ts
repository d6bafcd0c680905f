// The error for a command line that cannot work as it is written. `import` and `export` exit with 2 for it.
import { StartError } from '../platform/errors.ts';

export class UsageError extends StartError {
  override readonly name = 'UsageError';
}
