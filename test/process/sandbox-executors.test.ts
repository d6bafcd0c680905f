// Executors that die, burn, grow or were taken over: others go on, and nothing of the server is in their reach.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { type Account, createAccounts, openAccount } from '../../src/platform/base/accounts.ts';
import { Operation, within } from '../../src/platform/base/event-loop.ts';
import type { Outcome } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { endOf, findWalls, openTestSandbox, SMALL_LIMITS, type TestSandbox } from '../support/sandbox.ts';

const GOOD = 'module.exports = async (req) => ({ raw: { n: req.args.n + 1, clean: ({}).polluted === undefined } });';
const executorPath = fileURLToPath(new URL('../support/rogue-executor.ts', import.meta.url));

const isRoot = process.getuid?.() === 0;
const walls = await findWalls();

const ownedBy = (sandbox: TestSandbox, tenant: string) =>
  sandbox.executors().filter(({ tenant_id }) => tenant_id === tenant);
const violations = ({ events }: TestSandbox) => events.filter(({ event }) => event === 'violation');

describe('executors that die', () => {
  const killAll = (sandbox: TestSandbox, tenant: string) =>
    ownedBy(sandbox, tenant).forEach(({ pid }) => process.kill(pid, 'SIGKILL'));

  test('killed during a call: the run fails or is tried once more, and others go on', async () => {
    const sandbox = await openTestSandbox();
    try {
      const waiting =
        'module.exports = async () => { await new Promise((r) => setTimeout(r, 150)); return { raw: 1 }; };';
      for (let round = 0; round < 10; round += 1) {
        const run = sandbox.runCode('victim', waiting);
        const other = sandbox.runCode('other', GOOD, { args: { n: 1 } });
        await new Promise((resolve) => setTimeout(resolve, 60));
        killAll(sandbox, 'victim');
        expect(['ok{"raw":1}', 'EXECUTOR_DIED', 'BUSY']).toContain(endOf(await run));
        expect(endOf(await other)).toBe('ok{"raw":{"n":2,"clean":true}}');
      }
    } finally {
      await sandbox.close();
    }
  });

  test('a run that has called out is not tried again', async () => {
    const sandbox = await openTestSandbox();
    try {
      let calls = 0;
      const outcome = await sandbox.runCode(
        'victim',
        'module.exports = async () => { await fetch("https://example.com"); };',
        {
          answerCall: () => {
            calls += 1;
            killAll(sandbox, 'victim');
            return new Promise(() => undefined);
          },
        },
      );
      expect(endOf(outcome)).toBe('EXECUTOR_DIED');
      expect(outcome.hasCalled).toBe(true);
      expect(calls).toBe(1);
    } finally {
      await sandbox.close();
    }
  });

  test('an answer that was sent before the end counts, also where its tenant has to rest', async () => {
    let rests = 0;
    const accounts = createAccounts();
    const restMs = () => (rests++ === 0 ? 300 : 0);
    const sandbox = await openTestSandbox({ executorPath, accounts: { ...accounts, restMs } });
    try {
      const answered = await sandbox.runCode('a', 'code', { args: { part: 'answer and end' } });
      expect(endOf(answered)).toBe(`ok{"raw":"${'x'.repeat(100_000)}"}`);
      expect(rests).toBeGreaterThan(1);
      expect(endOf(await sandbox.runCode('a', 'code', { args: { part: 'honest' } }))).toBe('ok{"raw":1}');
      expect(sandbox.events.filter(({ event }) => event === 'killed')).toEqual([]);
    } finally {
      await sandbox.close();
    }
  });

  test('code that ends its executor again and again must wait; other code of the tenant need not', async () => {
    const sandbox = await openTestSandbox({ executorPath });
    try {
      const ends: string[] = [];
      for (let round = 0; round < 5; round += 1)
        ends.push(endOf(await sandbox.runCode('a', 'x', { args: { part: 'no JSON' } })));
      expect(ends.slice(0, 3)).toEqual(['EXECUTOR_DIED', 'EXECUTOR_DIED', 'EXECUTOR_DIED']);
      expect(ends.slice(3)).toContain('BUSY');
      expect(endOf(await sandbox.runCode('a', 'y', { args: { part: 'honest' } }))).toBe('ok{"raw":1}');
    } finally {
      await sandbox.close();
    }
  });
});

test('the tenant pays for an executor that it shares with anonymous clients', async () => {
  const anonymous = openAccount('a', '192.0.2.1');
  const accounts = createAccounts();
  const asked = new Set<Account>();
  const sandbox = await openTestSandbox({
    limits: { ...SMALL_LIMITS, wallMs: 10_000, cpuMs: 5_000 },
    accounts: {
      ...accounts,
      chargeHeavy: (account, usedMs) => {
        asked.add(account);
        accounts.chargeHeavy(account, usedMs);
      },
      restMs: (account) => {
        asked.add(account);
        return accounts.restMs(account);
      },
    },
  });
  /** Operations of requests, as the server makes them, and the time that each account has paid by them. */
  const paid = new Set<Account>();
  const runFor = (account: Account, work: () => Promise<Outcome>): Promise<Outcome> =>
    within(new Operation('POST /proxy', () => account, '', { spend: (payer) => paid.add(payer) }), work);
  const large = 'module.exports = () => ({ raw: "x".repeat(2_000_000) });';
  try {
    const called = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<unknown>();
    const waiting = runFor(anonymous, () =>
      sandbox.runCode('a', 'module.exports = async () => { await fetch("https://example.com"); return { raw: 1 }; };', {
        account: anonymous,
        answerCall: () => {
          called.resolve();
          return answer.promise;
        },
      }),
    );
    await called.promise;
    expect([...asked]).toEqual([anonymous]);
    await new Promise(setImmediate);
    asked.clear();
    paid.clear();
    expect((await runFor('a', () => sandbox.runCode('a', large))).ok).toBe(true);
    expect(ownedBy(sandbox, 'a')).toMatchObject([{ runs: 1 }]);
    expect([[...asked], [...paid]]).toEqual([['a'], ['a']]);
    answer.resolve({ status: 200, headers: {}, body: '' });
    await waiting;
    asked.clear();
    expect((await runFor(anonymous, () => sandbox.runCode('a', large, { account: anonymous }))).ok).toBe(true);
    expect([...asked]).toEqual([anonymous]);
  } finally {
    await sandbox.close();
  }
});

describe('an executor that is looked at between runs', () => {
  /** Runs a part again and again, until another executor runs it. No run may be lost over that. */
  const expectReplaced = async (part: string, { runsMax, pauseMs }: { runsMax: number; pauseMs: number }) => {
    const sandbox = await openTestSandbox({ executorPath });
    try {
      const pids = new Set<number>();
      for (let runs = 0; runs < runsMax && pids.size < 2; runs += 1) {
        expect(endOf(await sandbox.runCode('a', 'code', { args: { part } }))).toBe('ok{"raw":1}');
        for (const { pid } of ownedBy(sandbox, 'a')) pids.add(pid);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      expect(pids.size).toBe(2);
      expect(sandbox.events.filter(({ event }) => event === 'killed')).toEqual([]);
    } finally {
      await sandbox.close();
    }
  };

  // As many runs as would fill it several times over.
  test('is replaced when it has grown, also where its tenant leaves it no rest', () =>
    expectReplaced('grow', { runsMax: 600, pauseMs: 0 }));

  // On a machine with more to do it may not get to burn enough in the moment that is looked at.
  test('is ended when it burns on after its answer', () => expectReplaced('burn on', { runsMax: 50, pauseMs: 700 }));
});

describe('an executor that was taken over', () => {
  const forged = [
    'another run',
    'done twice',
    'call after done',
    'a call twice',
    'too many calls',
    'a million frames',
    'a frame of 4 GB',
    'a head larger than its frame',
    'no JSON',
    'a result that is no JSON',
    'a head of another shape',
    'a prototype in a head',
    'an unknown kind',
  ];

  test.each(forged)('%s: it is killed, with an alarm', async (part) => {
    const sandbox = await openTestSandbox({ executorPath });
    try {
      let calls = 0;
      const outcome = await sandbox.runCode('a', 'code', {
        args: { part },
        answerCall: () => {
          calls += 1;
          return Promise.resolve({});
        },
      });
      expect(['EXECUTOR_DIED', 'ok{"raw":1}']).toContain(endOf(outcome));
      await expect.poll(() => violations(sandbox).length, { timeout: 10_000 }).toBe(1);
      expect(calls).toBeLessThanOrEqual(250);
      expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
      await expect.poll(() => ownedBy(sandbox, 'a'), { timeout: 10_000 }).toEqual([]);
    } finally {
      await sandbox.close();
    }
  });

  test('what it says of its tenant is not heard: a call comes as of the run it belongs to', async () => {
    const sandbox = await openTestSandbox({ executorPath });
    try {
      const calls: unknown[] = [];
      await sandbox.runCode('a', 'code', {
        args: { part: 'an inherited tenant' },
        answerCall: ({ kind }) => {
          calls.push(kind);
          return Promise.resolve('a');
        },
      });
      expect(calls).toEqual(['whoami']);
    } finally {
      await sandbox.close();
    }
  });

  test.each(walls)('behind %s it finds no secret, no network, no disk and no process to signal', async (wallKind) => {
    const directory = mkdtempSync(join(tmpdir(), 'strongroom-secret-'));
    const secretPath = join(directory, 'master.key');
    writeFileSync(secretPath, 'the canary', { mode: 0o644 });
    const listener = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    await new Promise((resolve) => listener.once('listening', resolve));
    const victim = spawn('sleep', ['30']);
    process.env['CANARY_OF_THE_SERVER'] = 'the canary';
    const sandbox = await openTestSandbox({ executorPath, wallKind, limits: { ...SMALL_LIMITS, wallMs: 10_000 } });
    try {
      const { port } = listener.address() as { port: number };
      const outcome = await sandbox.runCode('a', 'code', {
        args: { part: 'look around', port, secretPath, serverPid: victim.pid },
      });
      expect(outcome.ok).toBe(true);
      const { raw } = (outcome as unknown as { value: { raw: Record<string, any> } }).value;
      expect(JSON.stringify(raw)).not.toContain('the canary');
      expect(raw['environment']).toEqual({});
      // Not there, or behind a directory that its user cannot enter.
      for (const found of ['secret', 'processes', 'serverEnvironment'])
        expect(['ENOENT', 'EACCES']).toContain(raw[found]);
      expect(['ESRCH', 'EPERM']).toContain(raw['server']);
      for (const written of raw['write']) expect(['EROFS', 'ENOENT', 'EACCES', 'EFBIG', 'EPERM']).toContain(written);
      for (const place of ['loopback', 'metadata', 'public']) expect(raw[place]).toBe('EPERM');
      expect(raw['root']).not.toContain('"etc"');
      expect(raw['namespaces']).not.toBe(0);
    } finally {
      delete process.env['CANARY_OF_THE_SERVER'];
      await sandbox.close();
      victim.kill('SIGKILL');
      listener.close();
      rmSync(directory, { recursive: true });
    }
  });

  test('that starts processes gets few, and is killed with them', async () => {
    // Behind no wall: a wall may let it start none at all.
    const sandbox = await openTestSandbox({
      executorPath,
      wallKind: 'none',
      limits: { ...SMALL_LIMITS, wallMs: 20_000 },
    });
    try {
      const fork = () => sandbox.runCode('a', 'code', { args: { part: 'fork' } });
      const outcome = await fork();
      // Its processes are looked for: where it is seen before it has started all, it is killed before it answers.
      if (!outcome.ok) expect(endOf(outcome)).toBe('EXECUTOR_DIED');
      // An ordinary user's processes are counted with everything else of his.
      else if (isRoot) expect((outcome as unknown as { value: { raw: number } }).value.raw).toBeLessThan(100);
      // For the processes, or for the CPU time they took after the answer: whichever is seen first.
      await expect.poll(() => ownedBy(sandbox, 'a'), { timeout: 5000 }).toEqual([]);
    } finally {
      await sandbox.close();
    }
  });
});

test('after close no executor is left', async () => {
  const sandbox = await openTestSandbox();
  await sandbox.runCode('a', GOOD, { args: { n: 1 } });
  const pids = sandbox.executors().map(({ pid }) => pid);
  await sandbox.close();
  expect(pids.length).toBeGreaterThan(0);
  // A process that ended may wait to be reaped by its new parent; it does not run.
  const isRunning = (pid: number): boolean => {
    try {
      return !readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.startsWith('Z');
    } catch {
      return false;
    }
  };
  await expect.poll(() => pids.filter(isRunning), { timeout: 10_000 }).toEqual([]);
});
