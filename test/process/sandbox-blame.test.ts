// Errors are attributed to the right run: an error is not a limit, one run's end is not another's.
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { memoryTotalMbLeast } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { endOf, openTestSandbox, SMALL_LIMITS, type TestSandbox } from '../support/sandbox.ts';

const body = (code: string): string => `module.exports = async function (req) { ${code} };`;
const GOOD = body('return { raw: 1 };');
/** Memory that a process does not share with others; 0 when it has ended. */
const privateMbOf = (pid: number): number => {
  try {
    return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
};

const violations = ({ events }: TestSandbox) => events.filter(({ event }) => event === 'violation');

describe('an error of code', () => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 5000, cpuMs: 3000 } });
  });
  afterAll(() => sandbox.close());

  test.each(['Script execution timed out.', 'object was disposed', 'memory limit reached'])(
    'that is unhandled and says %j ends no run',
    async (words) => {
      const code = body(`if (req.args.bad) Promise.reject(new Error(${JSON.stringify(words)}));
        await new Promise((r) => setTimeout(r, 60)); return { raw: 1 };`);
      const runs = [true, false, false].map((bad) => sandbox.runCode('a', code, { args: { bad } }));
      expect((await Promise.all(runs)).map(endOf)).toEqual(Array.from({ length: 3 }, () => 'ok{"raw":1}'));
    },
  );

  test.each([
    ['a response with a body of 9 MB', 'throw new S.CustomHttpResponseError({ status: 200, body: "x".repeat(9e6) });'],
    [
      'a response with a header of 9 MB',
      'throw new S.CustomHttpResponseError({ status: 200, headers: { a: "x".repeat(9e6) } });',
    ],
    [
      'an error with thousands of texts',
      'throw new S.BadRequestError(Object.fromEntries(Array.from({ length: 90 }, (_, i) => ["k" + i, Array.from({ length: 90 }, () => "x".repeat(4000))])));',
    ],
    [
      'a call of four million signs',
      'return { raw: await fetch("https://example.com", { method: "POST", body: "€".repeat(4e6) }).then(() => 1, () => 2) };',
    ],
    ['an error with a message of a million signs', 'throw new Error("€".repeat(1e6));'],
  ])('is no breach of the protocol: %s', async (_, code) => {
    const outcome = await sandbox.runCode('b', `const S = require('@svc/reactor-formulas-sdk'); ${body(code)}`);
    const allowed = ['OUTPUT_TOO_LARGE', 'SDK_ERROR', 'RESPONSE', 'THROWN:Error', 'ok{"raw":2}', 'THROWN'];
    expect(allowed).toContain(endOf(outcome));
    expect(violations(sandbox)).toEqual([]);
  });

  test('an answer that fits into no frame rejects the call', async () => {
    const code = body('return { raw: await fetch("https://example.com").then(() => "came", (e) => e.cause.code) };');
    const huge = {
      status: 200,
      status_text: 'OK',
      headers: [],
      body: '€'.repeat(3e6),
      url: 'https://example.com/',
      redirected: false,
    };
    const outcome = await sandbox.runCode('c', code, { answerCall: () => Promise.resolve(huge) });
    expect(endOf(outcome)).toBe('ok{"raw":"BODY_TOO_LARGE"}');
  });

  test('code that does not compile, and is then evicted, ends no run', async () => {
    expect(endOf(await sandbox.runCode('d', 'module.exports = ('))).toBe('SYNTAX');
    for (let index = 0; index < 10; index += 1) await sandbox.runCode('d', `${GOOD} // ${index}`);
    expect(sandbox.events.filter(({ event }) => event === 'killed')).toEqual([]);
  });
});

describe('one run', () => {
  test('that fills the isolate is the one that ends; those beside it are run again', async () => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, memoryMb: 64, wallMs: 5000, cpuMs: 4000 } });
    try {
      const code = body(`if (req.args.hog) { const a = []; for (;;) a.push({ a: {}, b: [] }); }
        await new Promise((r) => setTimeout(r, 300)); return { raw: 1 };`);
      const runs = [false, false, false, true].map((hog) => sandbox.runCode('a', code, { args: { hog } }));
      const ends = (await Promise.all(runs)).map(endOf);
      expect(ends.slice(0, 3)).toEqual(['ok{"raw":1}', 'ok{"raw":1}', 'ok{"raw":1}']);
      expect(['OUT_OF_MEMORY', 'TIMEOUT_CPU']).toContain(ends[3]);
    } finally {
      await sandbox.close();
    }
  });

  test('is told the limit that it broke, not the one that the runs beside it broke', async () => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 30_000, cpuMs: 2000 } });
    try {
      const bomb = (name: string) => body(`const a = []; for (;;) a.push(new Array(1e5).fill(1.5));`) + `// ${name}`;
      const bombs = ['b', 'c', 'd'].map((name) => sandbox.runCode('a', bomb(name)));
      const loop = sandbox.runCode('a', body('for (;;) {}'));
      expect(endOf(await loop)).toBe('TIMEOUT_CPU');
      expect(new Set((await Promise.all(bombs)).map(endOf))).toContain('OUT_OF_MEMORY');
    } finally {
      await sandbox.close();
    }
  });

  test('that fills the memory counts for its code, which must wait after a few of them', async () => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 30_000, cpuMs: 5000 } });
    try {
      const code = body('const a = []; for (;;) a.push(new Array(1e5).fill(1.5));');
      for (let run = 0; run < 3; run += 1) expect(endOf(await sandbox.runCode('a', code))).toBe('OUT_OF_MEMORY');
      const refused = await sandbox.runCode('a', code);
      expect(!refused.ok && refused.fault).toMatchObject({ code: 'BUSY', over: 'tenant' });
      for (const tenant of ['a', 'b']) expect(endOf(await sandbox.runCode(tenant, GOOD))).toBe('ok{"raw":1}');
      // Of many at once, those that still wait for an executor are refused as well.
      const ends = (await Promise.all(Array.from({ length: 40 }, () => sandbox.runCode('c', code)))).map(endOf);
      expect(new Set(ends)).toEqual(new Set(['OUT_OF_MEMORY', 'BUSY']));
      expect(ends.filter((end) => end === 'OUT_OF_MEMORY').length).toBeLessThan(20);
    } finally {
      await sandbox.close();
    }
  });

  test('pays for the work that is done for it outside the isolate', async () => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 10_000, cpuMs: 400 } });
    try {
      const code = body(`for (let i = 0; i < 60; i++) {
        require('crypto').pbkdf2Sync('a', 'b', 100000, 64, 'sha512'); await new Promise((r) => setTimeout(r, 1)); }
        return { raw: 1 };`);
      const outcome = await sandbox.runCode('a', code);
      expect(endOf(outcome)).toBe('TIMEOUT_CPU');
      expect(outcome.cpuMs).toBeGreaterThan(200);
    } finally {
      await sandbox.close();
    }
  });

  test('that has one long legal piece of such work is not taken for stuck', async () => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 10_000, cpuMs: 300 } });
    try {
      const code = body("require('crypto').pbkdf2Sync('a', 'b', 1000000, 64, 'sha512'); return { raw: 1 };");
      expect(endOf(await sandbox.runCode('a', code))).toBe('TIMEOUT_CPU');
      expect(sandbox.events.filter(({ event }) => event === 'killed')).toEqual([]);
    } finally {
      await sandbox.close();
    }
  });
});

describe('an encrypted private key', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'secret',
  }) as string;
  const plain = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const open = body(`const { createPrivateKey } = require('crypto');
    try { return { raw: createPrivateKey({ key: req.args.key, passphrase: 'secret' }).asymmetricKeyType }; }
    catch { return { raw: 'refused' }; }`);

  test.each([
    ['is opened', pem, 'ec'],
    ['that is plain is opened all the same', plain, 'ec'],
    [
      'under the label of a plain one is not: its work would not be known',
      pem.replaceAll('ENCRYPTED PRIVATE', 'PRIVATE'),
      'refused',
    ],
    ['in front of another one is not', pem + pem, 'refused'],
  ])('%s', async (_, key, expected) => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 5000, cpuMs: 3000 } });
    try {
      expect(endOf(await sandbox.runCode('a', open, { args: { key } }))).toBe(`ok{"raw":"${expected}"}`);
    } finally {
      await sandbox.close();
    }
  });
});

describe('a tenant', () => {
  test('does not get beyond half of the memory by having its executors retired', async () => {
    const memoryTotalMb = memoryTotalMbLeast(SMALL_LIMITS.memoryMb);
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 8000, cpuMs: 150 }, memoryTotalMb });
    try {
      const sleeper = body('await new Promise((r) => setTimeout(r, 6000));');
      const loop = body('for (;;) {}');
      const all: Promise<unknown>[] = [];
      for (let round = 0; round < 6; round += 1) {
        all.push(sandbox.runCode('evil', `${sleeper} // ${round}`));
        await Promise.race([sandbox.runCode('evil', `${loop} // ${round}`), new Promise((r) => setTimeout(r, 700))]);
        const own = sandbox.executors().filter(({ tenant_id }) => tenant_id === 'evil');
        const memoryMb = own.reduce((sum, { pid }) => sum + privateMbOf(pid), 0);
        expect(memoryMb).toBeLessThanOrEqual(memoryTotalMb / 2);
      }
      expect(endOf(await sandbox.runCode('good', GOOD))).toBe('ok{"raw":1}');
      void Promise.allSettled(all);
    } finally {
      await sandbox.close();
    }
  });

  test.each([
    ['a result of a million empty lists', 'return { raw: Array(1.6e6).fill([]) };'],
    ['a result of half a million objects', 'return { raw: Array(6e5).fill({ a: 1 }) };'],
    ['a text of 5 MB', 'return { raw: "a,[{".repeat(1.2e6) };'],
  ])('does not hold the loop of the server by %s', async (_, code) => {
    const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 6000, cpuMs: 5000 } });
    try {
      await sandbox.runCode('a', GOOD);
      const cpuMs: number[] = [];
      for (let run = 0; run < 3; run += 1) {
        const before = process.threadCpuUsage();
        const outcome = await sandbox.runCode('a', body(code));
        const { user, system } = process.threadCpuUsage(before);
        cpuMs.push((user + system) / 1_000);
        expect(outcome.ok || endOf(outcome) === 'THROWN').toBe(true);
        if (!outcome.ok)
          expect(outcome.fault).toMatchObject({ message: 'The result must not hold more than 100000 values.' });
      }
      // Without the bound the thread of the server works 500 ms and more, each time.
      expect(Math.min(...cpuMs)).toBeLessThan(300);
    } finally {
      await sandbox.close();
    }
  });
});
