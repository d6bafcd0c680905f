// Connects the command line to the process.
import { runCli } from './main.ts';

const { stdin, stdout, stderr, env } = process;
// The reader of the output is gone, as after `| head`: nobody waits for the rest.
for (const stream of [stdout, stderr]) stream.on('error', () => process.exit(1));
const code = await runCli(process.argv.slice(2), { stdin, stdout, stderr, env, directory: process.cwd() });
// Not process.exit: a pipe may still hold output. Standard input must not keep the process.
stdin.unref?.();
process.exitCode = code;
