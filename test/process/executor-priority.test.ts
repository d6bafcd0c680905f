// Which executors an owner gets, and with which priority: by the CPU time that its executors use.
import { readdirSync, readFileSync } from 'node:fs';
import { constants, getPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mayRaisePriority, NICENESS_MAX } from '../../src/platform/base/priority.ts';
import { startExecutor } from '../../src/platform/sandbox/host/executor-process.ts';
import type { Lease } from '../../src/platform/sandbox/host/lease.ts';
import { createPool, type Pool } from '../../src/platform/sandbox/host/pool.ts';
import { createSpawner } from '../../src/platform/sandbox/host/spawner.ts';
import { findLandlock } from '../../src/platform/sandbox/host/wall.ts';
import { codeOf } from '../support/reactors.ts';
import { endOf, openTestSandbox, SMALL_LIMITS } from '../support/sandbox.ts';

const GOOD = codeOf('return { raw: 1 };');
const USUAL = Math.min(NICENESS_MAX, getPriority() + 5);
const PATIENCE = { timeout: 30_000 };

const readNiceness = (path: string): number => Number(readFileSync(path, 'utf8').split(') ').at(-1)?.split(' ')[16]);

/** The niceness of each thread. */
const findNiceness = (pid: number): Set<number> =>
  new Set(readdirSync(`/proc/${pid}/task`).map((thread) => readNiceness(`/proc/${pid}/task/${thread}/stat`)));

const findChildren = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
  );

/** The last process in a chain of only children. */
const findInnermost = (pid: number): number => {
  const [child] = findChildren(pid);
  return child === undefined ? pid : findInnermost(child);
};

test('a spare starts at the lowest priority where the server may raise it, as for a waiting run', async () => {
  const spawner = createSpawner();
  try {
    const before = new Set(findChildren(process.pid));
    const { promise: spawned, resolve } = Promise.withResolvers<() => void>();
    const starting = startExecutor({
      spawner,
      wallKind: 'landlock',
      landlock: await findLandlock(),
      executorPath: fileURLToPath(new URL('../support/patient-executor.ts', import.meta.url)),
      memoryMb: SMALL_LIMITS.memoryMb,
      isSpare: true,
      spawned: resolve,
      received: () => undefined,
      broken: () => undefined,
    });
    const hurry = await spawned;
    const spawnerPid = findChildren(process.pid).find((pid) => !before.has(pid)) as number;
    const niceness = () => findNiceness(findInnermost(spawnerPid));
    await expect.poll(niceness, PATIENCE).toEqual(new Set([mayRaisePriority() ? NICENESS_MAX : USUAL]));
    hurry();
    expect(niceness()).toEqual(new Set([USUAL]));
    const handlesSignal = () => {
      const caught = /^SigCgt:\s+(\S+)/m.exec(readFileSync(`/proc/${findInnermost(spawnerPid)}/status`, 'utf8'))?.[1];
      return (BigInt(`0x${caught}`) >> BigInt(constants.signals.SIGUSR2 - 1)) & 1n;
    };
    await expect.poll(handlesSignal, PATIENCE).toBe(1n);
    process.kill(findInnermost(spawnerPid), 'SIGUSR2');
    const executor = await starting;
    expect(findNiceness(executor.pid)).toEqual(new Set([USUAL]));
    executor.kill();
    await executor.ended;
  } finally {
    await spawner.close();
  }
});

test('runs that wait are no load: they get a further executor only where one is full', async () => {
  const limits = { ...SMALL_LIMITS, wallMs: 60_000, cpuMs: 20_000 };
  const sandbox = await openTestSandbox({ limits });
  try {
    const countOwn = () => sandbox.executors().filter(({ tenant_id }) => tenant_id === 'a').length;
    const countSpares = () => sandbox.executors().filter(({ tenant_id }) => tenant_id === undefined).length;
    await sandbox.runCode('a', GOOD);
    await expect.poll(countSpares, PATIENCE).toBe(2);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const answer = { status: 200, status_text: 'OK', headers: [], body: '', url: 'https://example.com/' };
    let waiting = 0;
    const answerCall = async () => {
      waiting += 1;
      await released;
      return { ...answer, redirected: false };
    };
    const code = codeOf(`await fetch('https://example.com'); return { raw: 1 };`);
    const runs: Promise<unknown>[] = [];
    for (const [count, executors] of [
      [32, 1],
      [64, 2],
    ] as const) {
      while (runs.length < count) runs.push(sandbox.runCode('a', code, { answerCall }).then(endOf));
      await expect.poll(() => waiting, PATIENCE).toBe(count);
      expect(countOwn()).toBe(executors);
    }
    release();
    expect(new Set(await Promise.all(runs))).toEqual(new Set(['ok{"raw":1}']));
    expect(countOwn()).toBe(2);
  } finally {
    await sandbox.close();
  }
});

describe('an owner whose executors have many runs', () => {
  type Run = { id: number };
  let pool: Pool<Run>;
  beforeAll(async () => {
    pool = createPool<Run>({
      wallKind: 'auto',
      memoryMb: SMALL_LIMITS.memoryMb,
      memoryTotalMb: 2400,
      report: () => undefined,
      received: () => undefined,
      broken: () => undefined,
      ended: () => undefined,
      changed: () => pool.tend(),
    });
    await pool.start();
  });
  afterAll(() => pool.close());

  const need = { key: 'code', inputBytes: 0, isAlone: false };
  const owner = { tenant_id: 'a', application_id: undefined };
  const findSpares = () => [...pool.leases].filter(({ owner: of }) => !of);
  const fill = (lease: Lease<Run>, count: number): void => {
    for (let id = 0; id < count; id += 1) {
      pool.begin(lease, 10_000, false);
      lease.runs.set(id, { id });
    }
  };

  test('gets a further one where they use a core, each with less priority', async () => {
    const first = pool.find(owner, need);
    if (!first) throw new Error('there is no executor');
    fill(first, 20);
    await expect.poll(() => findSpares().length, PATIENCE).toBe(2);
    // What the watch measures, which the load of the machine would change.
    first.coreShare = 0.2;
    expect(pool.find(owner, need)).toBe(first);
    first.coreShare = 0.9;
    const second = pool.find(owner, need);
    if (!second) throw new Error('there is no further executor');
    expect(second).not.toBe(first);
    fill(second, 20);
    expect(pool.find(owner, need)).toBe(second);
    expect(findNiceness(first.executor.pid)).toEqual(new Set([USUAL]));
    expect(findNiceness(second.executor.pid)).toEqual(new Set([Math.min(NICENESS_MAX, USUAL + 2)]));
    // One for another application of the tenant is a further one, too.
    const other = pool.find({ ...owner, application_id: 'b' }, need);
    expect(findNiceness(other?.executor.pid as number)).toEqual(new Set([Math.min(NICENESS_MAX, USUAL + 4)]));
    await expect.poll(() => findSpares().length, PATIENCE).toBe(2);
    const anonymous = pool.find({ ...owner, tenant_id: 'c' }, need);
    expect(findNiceness(anonymous?.executor.pid as number)).toEqual(new Set([USUAL]));
    // The highest that is free: the first has ended.
    first.runs.clear();
    pool.end(first, undefined);
    await first.executor.ended;
    second.coreShare = 0.9;
    await expect.poll(() => findSpares().length, PATIENCE).toBe(2);
    second.coreShare = 0.9;
    const third = pool.find(owner, need);
    expect(findNiceness(third?.executor.pid as number)).toEqual(new Set([USUAL]));
  });

  test('gets one for a run that must be alone, which no other run joins', async () => {
    const alone = { ...need, isAlone: true };
    const tenant = { ...owner, tenant_id: 'd' };
    await expect.poll(() => findSpares().length, PATIENCE).toBe(2);
    const first = pool.find(tenant, need);
    if (!first) throw new Error('there is no executor');
    fill(first, 1);
    const second = pool.find(tenant, alone);
    if (!second) throw new Error('there is no further executor');
    expect(second).not.toBe(first);
    fill(second, 1);
    second.isForOne = true;
    expect(pool.find(tenant, need)).toBe(first);
    second.runs.clear();
    expect(pool.find(tenant, alone)).toBe(second);
  });
});
