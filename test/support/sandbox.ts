// The real sandbox with small limits, and words for what becomes of a program in it.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { type Account, createAccounts } from '../../src/platform/base/accounts.ts';
import {
  createSandbox,
  type SandboxEvent,
  type SandboxOptions,
  type SandboxOwner,
} from '../../src/platform/sandbox/host/supervisor.ts';
import { findLandlock } from '../../src/platform/sandbox/host/wall.ts';
import { CallFault, type Call, type Outcome, type WallKind } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { isInstalled } from './programs.ts';

export const SMALL_LIMITS = { wallMs: 900, cpuMs: 300, memoryMb: 128, outputBytesMax: 5 * 1024 * 1024 };

type Run = {
  args?: unknown;
  application_id?: string;
  /** The tenant's if absent. */
  account?: Account;
  signal?: AbortSignal;
  answerCall?: (call: Call) => Promise<unknown>;
};

export type TestSandbox = SandboxOwner & {
  events: SandboxEvent[];
  runCode(tenant_id: string, code: string, run?: Run): Promise<Outcome>;
};

const answerNothing = () => Promise.reject(new CallFault('NO_NETWORK', 'There is no network here.'));

export const openTestSandbox = async (options: Partial<SandboxOptions> = {}): Promise<TestSandbox> => {
  const events: SandboxEvent[] = [];
  const sandbox = createSandbox({
    limits: SMALL_LIMITS,
    isolation: 'context',
    wallKind: 'auto',
    allowWeak: true,
    memoryTotalMb: 2400,
    callBytesMax: 1024 * 1024,
    accounts: createAccounts(),
    report: (event) => events.push(event),
    ...options,
  });
  await sandbox.start();
  return {
    ...sandbox,
    get wall() {
      return sandbox.wall;
    },
    events,
    runCode: (tenant_id, code, { args = {}, answerCall = answerNothing, application_id, ...job } = {}) =>
      sandbox.run({
        tenant_id,
        application_id,
        ...job,
        code,
        key: createHash('sha256').update(code).digest('hex'),
        input: JSON.stringify({ args, configuration: {}, has_svc: false }),
        answerCall,
      }),
  };
};

/** What became of a run, in one word: `ok` with its JSON, or the fault's code with the name of what was thrown. */
export const endOf = (outcome: Outcome): string => {
  if (outcome.ok) return `ok${JSON.stringify(outcome.value)}`;
  const { fault } = outcome;
  return fault.code === 'THROWN' && fault.name ? `THROWN:${fault.name}` : fault.code;
};

/** The walls that can stand here. */
export const findWalls = async (): Promise<WallKind[]> => {
  const hasBubblewrap =
    isInstalled('bubblewrap') &&
    spawnSync('bwrap', ['--unshare-net', '--ro-bind', '/', '/', 'true'], { stdio: 'ignore' }).status === 0;
  const hasLandlock = typeof (await findLandlock()) === 'number';
  return [...(hasBubblewrap ? (['bwrap'] as const) : []), ...(hasLandlock ? (['landlock'] as const) : [])];
};
