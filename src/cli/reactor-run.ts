// Runs an author's file in the real sandbox, with args of the command line. Without a vault, `req.svc` is null.
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { loadConfig } from '../platform/config/config.ts';
import type { CommandIo } from './command.ts';
import { createWorkbench } from './inspection.ts';
import { StartError } from '../platform/base/errors.ts';
import { describeModules } from '../modules/code/code.ts';
import { answerFetch } from '../modules/code/answer-calls.ts';
import { CallFault, type Outcome, type RunFault, whyNoWall } from '../platform/sandbox/protocol/sandbox.ts';

/** Runs need a tenant id; this one belongs to no tenant. */
const NO_TENANT = 'reactor run';

export type ReactorRunOptions = { path: string; args: unknown; configuration: unknown; json: boolean | undefined };

/** @param path of a file; `-` for standard input. */
const readCode = async ({ openStdin }: CommandIo, path: string): Promise<string> => {
  if (path === '-') return text(openStdin());
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new StartError(`The file ${path} cannot be read. Name a JavaScript file that exports a function.`);
  }
};

const describeFault = (fault: RunFault): string => {
  switch (fault.code) {
    case 'THROWN': {
      const modules = describeModules(fault);
      return `${fault.name ?? 'Error'}: ${fault.message}${modules === undefined ? '' : `.${modules}`}`;
    }
    case 'SYNTAX':
      return fault.message;
    case 'SDK_ERROR':
      return `${fault.error.class} (${fault.error.status} ${fault.error.detail}): ${JSON.stringify(fault.error.errors)}`;
    case 'RESPONSE':
      return `CustomHttpResponseError: ${JSON.stringify(fault.response)}`;
    case 'NO_FUNCTION':
      return 'The file exports no function: module.exports = async function (req) { ... }';
    default:
      return fault.code;
  }
};

/** The line of the error with a mark under the column. */
const excerpt = (code: string, fault: RunFault): string[] => {
  const { line, column } = fault as { line?: number; column?: number };
  const text = line === undefined ? undefined : code.split('\n')[line - 1];
  if (line === undefined || text === undefined) return [];
  const number = `${line} | `;
  const mark = column === undefined ? [] : [`${' '.repeat(number.length + Math.max(0, column - 1))}^`];
  return ['', `${number}${text}`, ...mark];
};

const report = (path: string, code: string, outcome: Outcome): string => {
  const lines = outcome.logs.map(({ level, text }) => `[${level}] ${text}`);
  if (outcome.ok) lines.push(JSON.stringify(outcome.value, null, 2));
  else {
    const { line, column } = outcome.fault as { line?: number; column?: number };
    const place = line === undefined ? path : `${path}:${line}${column === undefined ? '' : `:${column}`}`;
    lines.push(`${place}: ${describeFault(outcome.fault)}`, ...excerpt(code, outcome.fault));
  }
  lines.push('', `${outcome.wallMs.toFixed(1)} ms, of it ${outcome.cpuMs.toFixed(1)} ms of CPU time`);
  return lines.join('\n');
};

/** Runs a file and prints its result. @returns whether the run succeeded. */
export const runReactorFile = async (
  io: CommandIo,
  { path, args, configuration, json }: ReactorRunOptions,
): Promise<boolean> => {
  const code = await readCode(io, path);
  const config = loadConfig(io.env);
  // A weak sandbox is allowed, because authors run their own code on their own machine.
  const bench = await createWorkbench({ ...config, sandbox: { ...config.sandbox, allowWeak: true } });
  const { wall } = bench.sandbox;
  if (wall?.kind === 'none' && config.sandbox.wallKind !== 'none')
    io.say(`No wall stands around the code: ${whyNoWall(wall)}.`);
  try {
    const outcome = await bench.sandbox.run({
      tenant_id: NO_TENANT,
      application_id: undefined,
      code,
      key: path,
      input: JSON.stringify({ args, configuration, has_svc: false }),
      answerCall: async (call) => {
        if (call.kind !== 'fetch') throw new CallFault('NOT_ALLOWED', 'There is no vault here.');
        return answerFetch(bench, { tenant_id: NO_TENANT, allowLists: [], mark: undefined, log: undefined }, call);
      },
    });
    const { wallMs: wall_ms, cpuMs: cpu_ms, hasCalled: _, ...rest } = outcome;
    io.print(json ? JSON.stringify({ ...rest, wall_ms, cpu_ms }) : report(path, code, outcome));
    return outcome.ok;
  } finally {
    await bench.close();
  }
};
