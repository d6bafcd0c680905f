// The entry point of the command line: switches to the right Node version first, and connects the command to the process.
import { isHandedOver } from '../platform/base/node-24.ts';

/** Resolves when a stream has passed on what was written to it, or its reader is gone. */
const flush = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => stream.write('', () => resolve()));

if (!isHandedOver()) {
  const { runCommand } = await import('./command-line.ts');
  const { stdout, stderr, env, argv } = process;
  // The reader of the output is gone, as after `| head`: the command ends in its own way, and says by its exit code that something was lost.
  let isLost = false;
  for (const stream of [stdout, stderr]) stream.on('error', () => (isLost = true));
  const code = await runCommand(argv.slice(2), { openStdin: () => process.stdin, stdout, stderr, env, overrides: {} });
  await Promise.all([flush(stdout), flush(stderr)]);
  // A library that leaves something open must not keep an operator's script waiting.
  process.exit(code || Number(isLost));
}
