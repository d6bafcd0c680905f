// Limits of runs, as the operating system counts them, and isolation between the calls of two runs.
import { pbkdf2Sync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAccounts } from '../../src/platform/base/accounts.ts';
import { THREADS_MAX } from '../../src/platform/sandbox/host/wall.ts';
import { endOf, openTestSandbox, SMALL_LIMITS, type TestSandbox } from '../support/sandbox.ts';

const rogue = fileURLToPath(new URL('../support/rogue-executor.ts', import.meta.url));
const MEGABYTE = 1024 * 1024;
const LIMITS = { ...SMALL_LIMITS, cpuMs: 1000, wallMs: 20_000 };
/** What the system may count beyond a run's limit before its process is gone. */
const BEYOND_MS = 500;

const inBody = (code: string): string => `const crypto = require('crypto'); module.exports = async () => { ${code} };`;

/** CPU time of a process, its threads included; undefined once it is gone. */
const cpuMsOf = (pid: number): number | undefined => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return undefined;
  }
};

const threadsOf = (pid: number): number => {
  try {
    return Number(/^Threads:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
};

const executorOf = (sandbox: TestSandbox, tenant: string): number | undefined =>
  sandbox.executors().find(({ tenant_id }) => tenant_id === tenant)?.pid;

describe('the CPU limit of a run holds for every function that it calls', () => {
  const endless: [string, string][] = [
    ['a derivation by PBKDF2', "for (;;) crypto.pbkdf2Sync('x', 'y', 1e6, 20, 'sha1');"],
    ['derivations by scrypt', "for (;;) crypto.scryptSync('x', 'y', 32, { N: 16384, p: 16 });"],
    ['RSA keys', "for (;;) crypto.generateKeyPairSync('rsa', { modulusLength: 4096 });"],
    ['hashes', "const x = 'x'.repeat(1e6); for (;;) crypto.createHash('sha256').update(x).digest();"],
    [
      'a storm of immediates',
      'const again = () => setImmediate(again); for (let n = 0; n < 256; n += 1) again(); await new Promise(() => {});',
    ],
    ['URLs', "for (;;) new URL('https://exämple.com/' + Math.random());"],
    ['garbage for all collectors', 'for (;;) { const kept = []; for (let n = 0; n < 1e5; n += 1) kept.push({ n }); }'],
  ];

  test.each(endless)('%s', async (_, code) => {
    const sandbox = await openTestSandbox({ limits: LIMITS });
    try {
      await sandbox.runCode('a', 'module.exports = () => ({ raw: 1 });');
      const pid = executorOf(sandbox, 'a') as number;
      const before = cpuMsOf(pid) as number;
      let after = before;
      const watch = setInterval(() => (after = cpuMsOf(pid) ?? after), 5);
      const outcome = await sandbox.runCode('a', inBody(code));
      expect(endOf(outcome)).toBe('TIMEOUT_CPU');
      // Work in a thread without a waiting caller is ended too.
      await expect.poll(() => cpuMsOf(pid), { timeout: 5000 }).toBeUndefined();
      clearInterval(watch);
      // The executor counts by the clock: on a busy machine a run gets less.
      expect(after - before).toBeGreaterThan(LIMITS.cpuMs / 10);
      expect(after - before).toBeLessThanOrEqual(LIMITS.cpuMs + BEYOND_MS);
    } finally {
      await sandbox.close();
    }
  });

  test('a derivation of one long key is refused: its blocks count', async () => {
    const sandbox = await openTestSandbox({ limits: LIMITS });
    try {
      const long = inBody("crypto.pbkdf2Sync('x', 'y', 1e6, 65536, 'sha1');");
      expect(endOf(await sandbox.runCode('a', long))).toBe('THROWN:RangeError');
      const short = inBody("return { raw: crypto.pbkdf2Sync('x', 'y', 1000, 64, 'sha1').toString('hex') };");
      expect(endOf(await sandbox.runCode('a', short))).toBe(
        `ok{"raw":"${pbkdf2Sync('x', 'y', 1000, 64, 'sha1').toString('hex')}"}`,
      );
    } finally {
      await sandbox.close();
    }
  });

  test('while one run derives a key, another reactor of its tenant runs in the same process', async () => {
    const sandbox = await openTestSandbox({ limits: { ...LIMITS, cpuMs: 10_000 } });
    try {
      const ends: string[] = [];
      const slow = sandbox
        .runCode('a', inBody("crypto.pbkdf2Sync('x', 'y', 1e6, 64, 'sha512'); return { raw: 'slow' };"))
        .then((outcome) => ends.push(endOf(outcome)));
      await expect.poll(() => sandbox.executors().some(({ runs }) => runs === 1)).toBe(true);
      const other = await sandbox.runCode('a', inBody("return { raw: 'other' };"));
      ends.push(endOf(other));
      await slow;
      expect(ends).toEqual(['ok{"raw":"other"}', 'ok{"raw":"slow"}']);
      expect(sandbox.executors().filter(({ tenant_id }) => tenant_id === 'a')).toHaveLength(1);
    } finally {
      await sandbox.close();
    }
  });
});

describe('what code leaves behind', () => {
  test('a FinalizationRegistry never calls back', async () => {
    const sandbox = await openTestSandbox({ limits: LIMITS });
    try {
      const code = inBody(`const called = []; const registry = new FinalizationRegistry(() => { for (;;); });
        for (let n = 0; n < 1e5; n += 1) registry.register({ n }, n);
        const kept = []; for (let n = 0; n < 1e6; n += 1) kept.push({ n }); kept.length = 0;
        await new Promise((resolve) => setTimeout(resolve, 50));
        return { raw: [called.length, registry.unregister({}), typeof FinalizationRegistry] };`);
      for (let round = 0; round < 3; round += 1)
        expect(endOf(await sandbox.runCode('a', code))).toBe('ok{"raw":[0,false,"function"]}');
    } finally {
      await sandbox.close();
    }
  });

  test('microtasks of code that was stopped do not run in place of other code', async () => {
    const sandbox = await openTestSandbox({ limits: LIMITS });
    try {
      const other = sandbox.runCode(
        'a',
        inBody("await new Promise((r) => setTimeout(r, 3000)); return { raw: 'other' };"),
      );
      const left = await sandbox.runCode('a', inBody('Promise.resolve().then(() => { for (;;); }); for (;;);'));
      expect(endOf(left)).toBe('TIMEOUT_CPU');
      expect(endOf(await other)).toBe('ok{"raw":"other"}');
    } finally {
      await sandbox.close();
    }
  });

  test('what runs cost beside their own time is not one of them to pay', async () => {
    const sandbox = await openTestSandbox({ isolation: 'isolate', limits: LIMITS });
    try {
      // Two that wait by turns: the process is never at rest.
      const waiting = inBody("await new Promise((r) => setTimeout(r, 2000)); return { raw: 'waited' };");
      const ends: string[] = [];
      let isOver = false;
      const wait = async (): Promise<void> => {
        while (!isOver) ends.push(endOf(await sandbox.runCode('a', waiting)));
      };
      const waits = [wait(), new Promise<void>((resolve) => setTimeout(resolve, 1000)).then(wait)];
      for (let n = 0; n < 200; n += 1)
        ends.push(endOf(await sandbox.runCode('a', inBody(`return { raw: 'waited' };`))));
      isOver = true;
      await Promise.all(waits);
      expect(new Set(ends)).toEqual(new Set(['ok{"raw":"waited"}']));
    } finally {
      await sandbox.close();
    }
  });
});

describe('no call of a run changes the result of another', () => {
  const USES = `
    const { privateKey, publicKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 1024, privateKeyEncoding: { type: 'pkcs8', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' } });
    const sealed = crypto.publicEncrypt(publicKey, Buffer.from('x'));
    const opened = crypto.privateDecrypt(privateKey, sealed).toString();
    const signed = crypto.verify('sha256', Buffer.from('x'), publicKey, crypto.sign('sha256', Buffer.from('x'), privateKey));
    return { raw: [opened, signed] };`;
  /** Calls that fail, one after another, each caught. */
  const FAILURES = `
    const failing = [
      () => crypto.scryptSync('x', 'y', 32, { N: 65536 }),
      () => crypto.scryptSync('x', 'y', 32, { N: 1000 }),
      () => crypto.createPrivateKey('no key'),
      () => crypto.privateDecrypt('no key', Buffer.alloc(1)),
      () => crypto.createDecipheriv('aes-256-gcm', Buffer.alloc(32), Buffer.alloc(12)).final(),
      () => crypto.pbkdf2Sync('x', 'y', 1, 1, 'none'),
      () => crypto.createECDH('prime256v1').computeSecret(Buffer.alloc(3)),
    ];
    let failed = 0;
    for (const call of failing) try { call(); } catch { failed += 1; }
    return { raw: failed };`;

  test('the next run signs, decrypts and makes keys after failures of others', async () => {
    const sandbox = await openTestSandbox({ limits: LIMITS });
    try {
      for (let round = 0; round < 3; round += 1) {
        expect(endOf(await sandbox.runCode('a', inBody(FAILURES)))).toBe('ok{"raw":7}');
        expect(endOf(await sandbox.runCode('a', inBody(USES)))).toBe('ok{"raw":["x",true]}');
      }
      expect(sandbox.executors().filter(({ tenant_id }) => tenant_id === 'a')).toHaveLength(1);
    } finally {
      await sandbox.close();
    }
  });

  test.each(['undefined', '5', '"x"', '["x"]', 'null'])(
    'where toJSON gives %s, calls fail or are answered, and no run but this one hears of it',
    async (given) => {
      const sandbox = await openTestSandbox({ limits: LIMITS });
      try {
        const other = sandbox.runCode(
          'a',
          inBody("await new Promise((r) => setTimeout(r, 500)); return { raw: 'other' };"),
        );
        const outcome = await sandbox.runCode(
          'a',
          inBody(`Object.prototype.toJSON = () => (${given});
            const calls = await Promise.allSettled([fetch('https://example.com', { method: 'POST', body: 'x' })]);
            return JSON.parse('{"raw":' + calls.length + '}');`),
        );
        expect(outcome.ok || outcome.fault.code === 'THROWN').toBe(true);
        expect(endOf(await other)).toBe('ok{"raw":"other"}');
        expect(sandbox.events.filter(({ event }) => event === 'violation')).toEqual([]);
      } finally {
        await sandbox.close();
      }
    },
  );
});

describe('an executor that was taken over', () => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openTestSandbox({ executorPath: rogue, limits: { ...LIMITS, cpuMs: 10_000 } });
  });
  afterAll(() => sandbox.close());

  test('is ended when it grows between runs', async () => {
    expect(endOf(await sandbox.runCode('grows', 'code', { args: { part: 'grow at rest' } }))).toBe('ok{"raw":1}');
    await expect.poll(() => executorOf(sandbox, 'grows'), { timeout: 10_000 }).toBeUndefined();
  });

  test('has no reader of its standard error', async () => {
    expect(endOf(await sandbox.runCode('shouts', 'code', { args: { part: 'shout' } }))).toBe('ok{"raw":"EPIPE"}');
  });

  test('has no more threads than an honest one needs', async () => {
    const run = sandbox.runCode('threads', 'code', { args: { part: 'many threads' } });
    let most = 0;
    const watch = setInterval(() => {
      const pid = executorOf(sandbox, 'threads');
      if (pid !== undefined) most = Math.max(most, threadsOf(pid));
    }, 5);
    expect((await run).ok).toBe(false);
    clearInterval(watch);
    expect(most).toBeGreaterThan(20);
    // A few may start between two looks.
    expect(most).toBeLessThanOrEqual(THREADS_MAX + 10);
  });
});

test('an executor that does not end a cancelled run is ended at the time limit of the run', async () => {
  const sandbox = await openTestSandbox({ executorPath: rogue });
  try {
    const leaving = new AbortController();
    const run = sandbox.runCode('silent', 'code', { args: { part: 'silent' }, signal: leaving.signal });
    await expect.poll(() => executorOf(sandbox, 'silent')).toBeDefined();
    leaving.abort();
    expect(endOf(await run)).toBe('CANCELLED');
    await expect.poll(() => executorOf(sandbox, 'silent'), { timeout: 10_000 }).toBeUndefined();
  } finally {
    await sandbox.close();
  }
});

test('executors have less priority than the server, and go before it where memory runs out', async () => {
  const sandbox = await openTestSandbox();
  try {
    const [executor] = sandbox.executors();
    const of = (pid: number | string) => ({
      nice: Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[16]),
      oom: Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8')),
    });
    const [own, its] = [of('self'), of(executor?.pid as number)];
    expect(its.nice).toBe(Math.min(19, own.nice + 5));
    expect(its.oom).toBe(500);
    expect(own.oom).toBeLessThan(500);
  } finally {
    await sandbox.close();
  }
});

test('large messages of an executor are paid by its tenant: two milliseconds a megabyte', async () => {
  const accounts = createAccounts();
  const paid: Record<string, number> = {};
  const chargeHeavy = (account: string, usedMs: number): void => {
    paid[account] = (paid[account] ?? 0) + usedMs;
    accounts.chargeHeavy(account, usedMs);
  };
  const sandbox = await openTestSandbox({ limits: LIMITS, accounts: { ...accounts, chargeHeavy } });
  try {
    const large = `module.exports = async () => ({ raw: 'x'.repeat(${4 * MEGABYTE}) });`;
    expect(endOf(await sandbox.runCode('small', inBody('return { raw: 1 };')))).toBe('ok{"raw":1}');
    expect((await sandbox.runCode('large', large)).ok).toBe(true);
    expect(Object.keys(paid)).toEqual(['large']);
    // The last reads may be too few for a charge.
    expect(paid['large']).toBeGreaterThan(7.5);
    expect(paid['large']).toBeLessThan(9);
  } finally {
    await sandbox.close();
  }
});
