// Sets a vault up from a file, with a plan first; and writes the file of a vault.
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Command } from 'commander';
import type { Strongroom } from '@strongroom/node';
import type { Plan } from '../apply/plan.ts';
import type { State } from '../apply/state.ts';
import type { VaultFile } from '../apply/vault-file.ts';
import { type Call, define, defineGroup, type Scope } from '../define.ts';
import { CliError, EXIT, usageError } from '../exit-codes.ts';
import { readLine } from '../input.ts';
import { cleanText, type Io } from '../io.ts';

type ApplyOptions = { plan?: boolean; prune?: boolean; out?: string; yes?: boolean };

/** A plan that was kept: where its file is, and what it was made of. It has no values. */
type KeptPlan = { strongroom_plan: 1; file: string; prune: boolean; digest: string };

/** The plan in a file; undefined for a vault file. A vault file in JSON has another first name. */
const readKeptPlan = (io: Io, path: string): KeptPlan | undefined => {
  if (!path.endsWith('.json')) return undefined;
  try {
    const plan = JSON.parse(readFileSync(resolve(io.directory, path), 'utf8')) as Partial<KeptPlan> | null;
    const isPlan = plan?.strongroom_plan === 1 && typeof plan.file === 'string' && typeof plan.digest === 'string';
    return isPlan
      ? { strongroom_plan: 1, file: plan.file as string, prune: plan.prune === true, digest: plan.digest as string }
      : undefined;
  } catch {
    // What it is, the reader of vault files says.
    return undefined;
  }
};

const drift = (what: string): CliError =>
  new CliError(`${what} is not as it was when the plan was made: nothing was changed. Make a new plan.`, EXIT.drift);

const writeOut = (io: Io, path: string, text: string, isSecret = false): void => {
  try {
    const file = resolve(io.directory, path);
    writeFileSync(file, text, isSecret ? { mode: 0o600 } : {});
    // The mode above is for a new file only.
    if (isSecret) chmodSync(file, 0o600);
  } catch (error) {
    throw new CliError(`The file ${path} cannot be written: ${(error as NodeJS.ErrnoException).code}.`, EXIT.file);
  }
};

/** How a file begins that `config pull` has written. */
const PULLED = '# Written by strongroom config pull.';

/** @throws CliError for a file that a person has written: `$env`, `code_file` and comments would be lost. */
const checkOverwritten = (io: Io, path: string): void => {
  const file = resolve(io.directory, path);
  const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  if (size > 0 && !readFileSync(file, 'utf8').startsWith(PULLED))
    throw new CliError(
      `The file ${path} is there, and config pull has not written it: give another name, or remove it first.`,
      EXIT.file,
    );
};

type Prepared = { file: VaultFile; state: State; plan: Plan; prune: boolean };

const prepare = async (io: Io, vault: Strongroom, path: string, prune: boolean): Promise<Prepared> => {
  const [{ readVaultFile }, { readState }, { makePlan }] = await Promise.all([
    import('../apply/vault-file.ts'),
    import('../apply/state.ts'),
    import('../apply/plan.ts'),
  ]);
  const file = await readVaultFile(io, path);
  const state = await readState(vault, file.read);
  return { file, state, plan: makePlan(file, state, { prune }), prune };
};

const keepPlan = (io: Io, out: string, path: string, { plan, prune }: Prepared): void => {
  const file = relative(dirname(resolve(io.directory, out)), resolve(io.directory, path));
  const kept: KeptPlan = { strongroom_plan: 1, file, prune, digest: plan.digest };
  writeOut(io, out, `${JSON.stringify(kept, null, 2)}\n`);
  if (!io.json) io.say(`The plan is in ${out}: strongroom apply ${out} does it, if nothing has changed by then.`);
};

const PAST = { make: 'Made', change: 'Changed', remove: 'Removed' } as const;

const perform = async (io: Io, vault: Strongroom, { state, plan }: Prepared): Promise<void> => {
  const { performPlan } = await import('../apply/perform.ts');
  await performPlan(vault, state, plan, ({ action, kind, name }) => {
    if (io.json) io.show({ done: action, kind, name });
    else io.print(`${PAST[action]} the ${kind} ${cleanText(JSON.stringify(name))}.`);
  });
  if (io.json) return;
  for (const { action, kind, name } of plan.steps) {
    if (action !== 'make') continue;
    const text = cleanText(JSON.stringify(name));
    if (kind === 'application') io.say(`The application ${text} has no key yet: strongroom api-keys add ${text}`);
    if (kind === 'webhook')
      io.say(`The secret of the webhook ${text} was not shown: strongroom webhooks rotate-secret ${text}`);
  }
};

const apply = async ({ io, args: [path = ''], options, openVault, findProfile }: Call<ApplyOptions>): Promise<void> => {
  const { plan: isPlan = false, out, yes = false } = options;
  if (out !== undefined && !isPlan) throw usageError('--out is for --plan.');
  if (out !== undefined && !out.endsWith('.json'))
    throw usageError('The name of the file of a plan must end in .json.');
  const kept = readKeptPlan(io, path);
  if (kept && (isPlan || options.prune))
    throw usageError('The file is a plan already: apply it without --plan and --prune.');
  const source = kept ? relative(io.directory, resolve(io.directory, dirname(path), kept.file)) : path;
  const vault = await openVault();
  const prune = kept?.prune ?? options.prune ?? false;
  const prepared = await prepare(io, vault, source, prune);
  if (kept && kept.digest !== prepared.plan.digest) throw drift('The vault, or the file,');
  const { planLines, planRecord } = await import('../apply/show-plan.ts');
  const { trialLines, tryRights } = await import('../apply/simulate.ts');
  const trials = isPlan ? await tryRights(vault, prepared.plan, prepared.state) : [];
  if (io.json) io.show({ ...planRecord(prepared.plan), ...(isPlan && { tried: trials }) });
  else [...planLines(prepared.plan), ...trialLines(trials)].forEach((line) => io.print(line));
  if (isPlan) return out === undefined ? undefined : keepPlan(io, out, path, prepared);
  if (prepared.plan.steps.length === 0) return;
  if (io.stdin.isTTY && !yes && !kept && path !== '-') {
    if ((await readLine(io, `Apply to ${findProfile().url}? Type yes: `)) !== 'yes')
      throw new CliError('Nothing was changed.', EXIT.interrupted);
    // A person may think for an hour.
    const again = await prepare(io, vault, source, prune);
    if (again.plan.digest !== prepared.plan.digest) throw drift('The vault, or the file,');
  }
  await perform(io, vault, prepared);
};

export const addApply = (scope: Scope, program: Command): void => {
  define<ApplyOptions>(scope, program, {
    signature: 'apply <file>',
    summary: 'makes a vault as a file says: applications, rules, formulas, reactors, proxies, webhooks, settings',
    more:
      'What the file leaves out stays as it is; null removes. Nothing is removed without --prune, and then only of the kinds that the\n' +
      'file has. FILE may be a plan of --plan --out. A terminal is asked before anything changes. See docs/guides/command-line.md.',
    options: [
      ['--plan', 'shows what would change and what other rights would have done in the last days, and changes nothing'],
      ['--out <file.json>', 'with --plan: keeps the plan, to be applied if nothing has changed by then'],
      ['--prune', 'also removes what the file does not name'],
      ['--yes', 'does not ask'],
    ],
    run: apply,
  });
  const group = defineGroup(program, 'config', 'the file of a vault');
  define<{ out?: string; withConfiguration?: boolean }>(scope, group, {
    signature: 'pull',
    summary: 'writes the file that apply reads, from a vault',
    more: 'It has no API keys, no keys of proxies, no secrets of webhooks and no client certificates.',
    options: [
      ['--out <file>', 'writes this file; standard output if not given'],
      ['--with-configuration', 'also the values of configurations, which may be secrets: --out has mode 0600'],
    ],
    run: async ({ io, options: { out, withConfiguration = false }, openVault }) => {
      const vault = await openVault();
      const [{ readState }, { writeVaultFile }] = await Promise.all([
        import('../apply/state.ts'),
        import('../apply/pull.ts'),
      ]);
      const state = await readState(
        vault,
        new Set(['application', 'formula', 'reactor', 'proxy', 'webhook', 'tenant'] as const),
      );
      const text = writeVaultFile(state, withConfiguration, PULLED);
      if (out !== undefined) {
        checkOverwritten(io, out);
        writeOut(io, out, text, withConfiguration);
      }
      if (io.json) io.show(out === undefined ? { text } : { file: out });
      else if (out === undefined) io.print(text.trimEnd());
      else io.say(`Wrote ${out}.`);
    },
  });
};
