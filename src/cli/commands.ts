// The operator's command line: reads arguments, answers help and misuse, and runs the command.
import { parseArgs } from 'node:util';
import { StartError } from '../errors.ts';
import { version } from '../version.ts';
import { findCommand, groupHelp, helpOf, misuseOf, parseOptions, usage } from './command-table.ts';

const run = async (): Promise<void> => {
  const { values, positionals } = parseArgs({ options: parseOptions, allowPositionals: true });
  const { help, version: isVersion, ...options } = values;
  if (isVersion) return void console.log(`strongroom ${version}`);
  const found = findCommand(positionals);
  if (!found) {
    const [word = ''] = positionals;
    const group = positionals.length === 1 || help ? groupHelp(word) : undefined;
    if (group !== undefined) return void console.log(group);
    if (help || positionals.length === 0) return void console.log(usage);
    throw new StartError(`There is no command "${positionals.join(' ')}".\n\n${groupHelp(word) ?? usage}`);
  }
  const { name, operands } = found;
  if (help) return void console.log(helpOf(name));
  const misuse = misuseOf(name, Object.keys(options), operands);
  if (misuse !== undefined) throw new StartError(`${misuse}\n\n${helpOf(name)}`);
  // Behind the answers above, which need none of what a command works with: to load that takes most of a second.
  const { runs } = await import('./command-runs.ts');
  await runs[name](values, operands[0]);
};

run()
  .catch(async (error: unknown) => {
    // What parseArgs refuses, it says about the command line alone.
    const isUsage = (error as NodeJS.ErrnoException)?.code?.startsWith('ERR_PARSE_ARGS');
    const isSaid = isUsage || error instanceof StartError;
    console.error(isSaid ? (error as Error).message : (await import('../context.ts')).failureText(error));
    process.exitCode = 1;
  })
  // Everything is closed; the engine of the migrations leaves a timer behind that would hold the terminal for ten seconds.
  .finally(() => process.exit());
