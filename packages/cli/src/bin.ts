// Connects the command line to the process. The operator's commands are those of the server, where it is installed.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { runCli } from './main.ts';

/** The first word of the operator's commands. */
const ADMIN = 'admin';

/** The program of the server: of the checkout that this package is in, or an installed one. */
const findServer = (): string | undefined => {
  const inCheckout = fileURLToPath(new URL('../../../bin/strongroom.cjs', import.meta.url));
  if (existsSync(inCheckout)) return inCheckout;
  try {
    return createRequire(join(process.cwd(), 'package.json')).resolve('strongroom/bin/strongroom.cjs');
  } catch {
    return undefined;
  }
};

const { stdin, stdout, stderr, env } = process;
const words = process.argv.slice(2);
const server = words[0] === ADMIN ? findServer() : undefined;
if (server !== undefined) await import(pathToFileURL(server).href);
else if (words[0] === ADMIN) {
  stderr.write(
    "The operator's commands are part of the server, which is not installed here: docs/operations/commands.md.\n",
  );
  process.exitCode = 2;
} else {
  // The reader of the output is gone, as after `| head`: nobody waits for the rest.
  for (const stream of [stdout, stderr]) stream.on('error', () => process.exit(1));
  const code = await runCli(words, { stdin, stdout, stderr, env, directory: process.cwd() });
  // Not process.exit: a pipe may still hold output. Standard input must not keep the process.
  (stdin as { unref?(): void }).unref?.();
  process.exitCode = code;
}
