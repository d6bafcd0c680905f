// The text that an operator sees for an error that ends a start or a command.
import { ConfigError } from '../config/config.ts';
import { MigrationError } from '../maintenance/migrate.ts';
import { StartError } from '../base/errors.ts';
import { describeError } from '../base/log.ts';
import { PROGRAM } from '../base/program.ts';

/** The printable parts of such an error. */
export const failureText = (error: unknown): string => {
  const isForOperator = [ConfigError, StartError, MigrationError].some((made) => error instanceof made);
  if (isForOperator) return (error as Error).message;
  return `This failure is unexpected. Its words are left out, for they can hold values; its name and place are below. To see which part of a start fails: ${PROGRAM} doctor\n${JSON.stringify(describeError(error), null, 2)}`;
};
