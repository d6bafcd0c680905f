// The figures of the sandbox by itself: what a run costs, what executors weigh, and how soon there is another after a kill.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createAccounts } from '../src/platform/base/accounts.ts';
import { createSandbox, type SandboxOwner } from '../src/platform/sandbox/host/supervisor.ts';
import { startExecutor } from '../src/platform/sandbox/host/executor-process.ts';
import { CallFault, type WallKind } from '../src/platform/sandbox/protocol/sandbox.ts';
import { createSpawner } from '../src/platform/sandbox/host/spawner.ts';
import { findLandlock, wallKinds } from '../src/platform/sandbox/host/wall.ts';
import { median, round } from './turns.ts';

export const TRIVIAL = 'module.exports = async (req) => ({ raw: { n: req.args.n } });';
export const ECHO = 'module.exports = async (req) => ({ raw: req.args });';
export const SMALL_ARGS = { n: 1 };

/** About 10 KB of JSON, as an order or a list of customers is. */
export const LARGE_ARGS = {
  items: Array.from({ length: 90 }, (_, index) => ({
    id: `item-${index}`,
    name: `An item with the number ${index}`,
    amount: index * 1.25,
    tags: ['first', 'second'],
    is_open: index % 2 === 0,
  })),
};

const LIMITS = { wallMs: 30_000, cpuMs: 5000, memoryMb: 128, outputBytesMax: 5 * 1024 * 1024 };

export const openSandbox = async (limits = LIMITS): Promise<SandboxOwner> => {
  const sandbox = createSandbox({
    limits,
    isolation: 'context',
    wallKind: 'auto',
    allowWeak: true,
    memoryTotalMb: 2400,
    callBytesMax: 1024 * 1024,
    accounts: createAccounts(),
    report: () => undefined,
  });
  await sandbox.start();
  return sandbox;
};

export const runOn = async (sandbox: SandboxOwner, tenant_id: string, code: string, args: unknown) => {
  const outcome = await sandbox.run({
    tenant_id,
    application_id: undefined,
    code,
    key: code,
    input: JSON.stringify({ args, configuration: {}, has_svc: false }),
    answerCall: () => Promise.reject(new CallFault('NO_NETWORK', 'There is no network here.')),
  });
  return outcome;
};

const TICK_US = 10_000;
const cpuUs = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
};

const residentMb = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** So few that one executor lives through all of them. */
const ROUNDS = 3;
const CALLS = 1000;

const cpuOfRuns = async (sandbox: SandboxOwner, code: string, args: unknown): Promise<number> => {
  for (let index = 0; index < CALLS / 4; index += 1) await runOn(sandbox, 'bench', code, args);
  const pid = sandbox.executors().find(({ tenant_id }) => tenant_id === 'bench')?.pid as number;
  const before = cpuUs(pid);
  for (let index = 0; index < CALLS; index += 1) await runOn(sandbox, 'bench', code, args);
  return (cpuUs(pid) - before) / CALLS;
};

const cpuOfContexts = async (code: string, args: unknown): Promise<number> => {
  const script = fileURLToPath(new URL('./vm-contexts.ts', import.meta.url));
  const input = JSON.stringify({ args, configuration: {} });
  const { stdout } = await promisify(execFile)(process.execPath, [script, code, input, String(CALLS)]);
  return Number(stdout);
};

const cpuRatio = async (code: string, args: unknown) => {
  const sandbox = await openSandbox();
  try {
    const ours: number[] = [];
    const limits: number[] = [];
    for (let turn = 0; turn < ROUNDS; turn += 1) {
      ours.push(await cpuOfRuns(sandbox, code, args));
      limits.push(await cpuOfContexts(code, args));
    }
    return {
      ratio: round(median(ours.map((value, index) => value / (limits[index] as number)))),
      us: Math.round(median(ours)),
      limit_us: Math.round(median(limits)),
    };
  } finally {
    await sandbox.close();
  }
};

/** CPU time of the executor for a run in a fresh context, against node:vm with a new context a call. */
export const sandboxCpu = async () => ({
  trivial: { ...(await cpuRatio(TRIVIAL, SMALL_ARGS)), at_most: 2.5 },
  large: { ...(await cpuRatio(ECHO, LARGE_ARGS)), at_most: 4.5 },
});

const ISOLATES = 8;
const MIXED_RUNS = 10_000;
const MIXED_TENANTS = 3;

const mixed = [
  TRIVIAL,
  ECHO,
  'module.exports = async (req) => ({ raw: require("crypto").createHash("sha256").update("a" + req.args.n).digest("hex") });',
  'module.exports = async () => { await new Promise((r) => setTimeout(r, 1)); return { raw: Buffer.from("abc").toString("base64") }; };',
  'module.exports = async () => { throw new Error("no"); };',
  'module.exports = async () => ({ raw: new URL("https://example.com/a?b=c").searchParams.get("b") });',
];

/** What a warm isolate weighs, and what 10,000 runs of mixed code leave behind. */
export const sandboxMemory = async () => {
  const sandbox = await openSandbox();
  try {
    await runOn(sandbox, 'weigh', TRIVIAL, SMALL_ARGS);
    const { pid } = sandbox.executors().find(({ tenant_id }) => tenant_id === 'weigh') as { pid: number };
    const one = residentMb(pid);
    for (let index = 1; index < ISOLATES; index += 1)
      for (let again = 0; again < 3; again += 1) await runOn(sandbox, 'weigh', `${TRIVIAL} // ${index}`, SMALL_ARGS);
    const perIsolate = (residentMb(pid) - one) / (ISOLATES - 1);

    const executorsMb = (): number =>
      sandbox
        .executors()
        .filter(({ tenant_id }) => tenant_id?.startsWith('mixed'))
        .reduce((sum, executor) => sum + residentMb(executor.pid), 0);
    const series: number[] = [];
    for (let index = 0; index < MIXED_RUNS; index += 4) {
      await Promise.all(
        Array.from({ length: 4 }, (_, offset) =>
          runOn(
            sandbox,
            `mixed ${(index + offset) % MIXED_TENANTS}`,
            mixed[(index + offset) % mixed.length] as string,
            { n: index },
          ),
        ),
      );
      if (index % 1000 === 0) series.push(round(executorsMb() / MIXED_TENANTS));
    }
    return {
      isolate_mb: round(perIsolate),
      isolate_at_most_mb: 2,
      growth_mb: round((series.at(-1) as number) - (series[1] as number)),
      growth_at_most_mb: 50,
      executor_mb: series,
      own_mb: Math.round(process.memoryUsage().rss / 1024 / 1024),
    };
  } finally {
    await sandbox.close();
  }
};

const KILLS = 10;

/** From the kill of a tenant's executor to its next good answer, with a spare ready. */
export const sandboxRecovery = async () => {
  const sandbox = await openSandbox();
  try {
    const times: number[] = [];
    for (let kill = 0; kill < KILLS; kill += 1) {
      await runOn(sandbox, 'bench', TRIVIAL, SMALL_ARGS);
      while (!sandbox.executors().some(({ tenant_id }) => tenant_id === undefined))
        await new Promise((resolve) => setTimeout(resolve, 20));
      const { pid } = sandbox.executors().find(({ tenant_id }) => tenant_id === 'bench') as { pid: number };
      const began = performance.now();
      process.kill(pid, 'SIGKILL');
      const outcome = await runOn(sandbox, 'bench', TRIVIAL, SMALL_ARGS);
      if (!outcome.ok) throw new Error(`the call after a kill failed: ${outcome.fault.code}`);
      times.push(performance.now() - began);
    }
    return { p50_ms: round(median(times)), most_ms: round(Math.max(...times)), at_most_ms: 100 };
  } finally {
    await sandbox.close();
  }
};

const STARTS = 15;

/** From the start of an executor until it is ready, behind each wall that can stand here, in turn; and without one. */
export const sandboxStart = async () => {
  const landlock = await findLandlock();
  const spawner = createSpawner();
  const times: Partial<Record<WallKind, number[]>> = {};
  const measure = async (wallKind: WallKind): Promise<number> => {
    const began = performance.now();
    const handlers = { received: () => undefined, broken: () => undefined };
    const executor = await startExecutor({
      spawner,
      wallKind,
      landlock,
      memoryMb: LIMITS.memoryMb,
      isSpare: false,
      ...handlers,
    });
    const ms = performance.now() - began;
    executor.kill();
    await executor.ended;
    return ms;
  };
  for (let turn = 0; turn < STARTS; turn += 1)
    for (const kind of wallKinds) {
      const ms = await measure(kind).catch(() => undefined);
      if (ms !== undefined) (times[kind] ??= []).push(ms);
    }
  await spawner.close();
  const medians = Object.entries(times).map(([kind, of]) => [`${kind}_ms`, round(median(of))]);
  return { ...Object.fromEntries(medians), beyond_none_at_most_ms: 10 };
};
