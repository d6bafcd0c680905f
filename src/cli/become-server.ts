// Replaces the process of the command line by the server, which needs flags of Node that only a start can set.
import { fileURLToPath } from 'node:url';

/** The same flags are in bin/start.sh and the Dockerfile. */
export const SERVER_FLAGS = ['--disable-sigusr1', '--min-semi-space-size=16', '--max-semi-space-size=16'];

/** The process keeps its id and gets the new program, so that signals reach the server. Needs the built files. */
export const becomeServer = (): never => {
  const program = fileURLToPath(new URL('../../bin/start.cjs', import.meta.url));
  // Linux with Node 24 has it. The environment stays as it is.
  return process.execve?.(process.execPath, [process.execPath, ...SERVER_FLAGS, program]) as never;
};
