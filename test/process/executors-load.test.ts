// Executors under load: memory is shared between tenants that take turns, wait, burn and send megabytes.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { memoryTotalMbLeast } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { codeOf, makeReactor, react, tokenOf } from '../support/reactors.ts';
import { endOf, openTestSandbox, SMALL_LIMITS } from '../support/sandbox.ts';
import { startServer, type TestServer } from '../support/server.ts';

const GOOD = codeOf('return { raw: 1 };');
const SLEEP_MS = 6000;
const SLEEPER = codeOf(`await new Promise((resolve) => setTimeout(resolve, ${SLEEP_MS})); return { raw: 1 };`);
/** Room for two executors at their limits, as on the smallest machine. */
const SMALL = { memoryTotalMb: memoryTotalMbLeast(SMALL_LIMITS.memoryMb) };
const tenantsOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `tenant ${index}`);

describe('tenants that take turns', () => {
  test('keep their executors where the memory holds them', async () => {
    const sandbox = await openTestSandbox();
    try {
      const tenants = tenantsOf(12);
      const pidsOf = () => new Map(sandbox.executors().map(({ tenant_id, pid }) => [tenant_id, pid]));
      for (const tenant of tenants) expect(endOf(await sandbox.runCode(tenant, GOOD))).toBe('ok{"raw":1}');
      const before = pidsOf();
      for (let round = 0; round < 5; round += 1)
        for (const tenant of tenants) expect(endOf(await sandbox.runCode(tenant, GOOD))).toBe('ok{"raw":1}');
      const after = pidsOf();
      expect(tenants.map((tenant) => after.get(tenant))).toEqual(tenants.map((tenant) => before.get(tenant)));
    } finally {
      await sandbox.close();
    }
  });

  test('are all served where it does not, and the executors that were idle longest give way', async () => {
    const sandbox = await openTestSandbox(SMALL);
    try {
      // A start of an executor takes up to a second on a slow machine, and a run waits for ten seconds at most.
      const tenants = tenantsOf(8);
      const ends = await Promise.all(tenants.map(async (tenant) => endOf(await sandbox.runCode(tenant, GOOD))));
      expect(new Set(ends)).toEqual(new Set(['ok{"raw":1}']));
      expect(sandbox.executors().length).toBeLessThan(tenants.length);
    } finally {
      await sandbox.close();
    }
  });
});

test('two tenants with 64 waiting runs each do not block other tenants', async () => {
  const limits = { ...SMALL_LIMITS, wallMs: 3 * SLEEP_MS };
  const sandbox = await openTestSandbox({ ...SMALL, limits });
  try {
    const over: string[] = [];
    const sleeping = ['a', 'b'].flatMap((tenant) =>
      Array.from({ length: 64 }, async () => over.push(endOf(await sandbox.runCode(tenant, SLEEPER)))),
    );
    const others: string[] = [];
    // Their executors start while the others sleep, which is six seconds.
    for (const tenant of tenantsOf(2)) others.push(endOf(await sandbox.runCode(tenant, GOOD)));
    // None of the others had to wait for the end of one that waits.
    expect(over).toEqual([]);
    expect(new Set(others)).toEqual(new Set(['ok{"raw":1}']));
    await Promise.all(sleeping);
    expect(over.filter((end) => end === 'ok{"raw":1}')).toHaveLength(128);
  } finally {
    await sandbox.close();
  }
});

test('a run that burns keeps no other tenant from starting', async () => {
  const limits = { ...SMALL_LIMITS, cpuMs: 4000, wallMs: 20_000 };
  const sandbox = await openTestSandbox({ ...SMALL, limits });
  try {
    const over: string[] = [];
    const burning = Array.from({ length: 6 }, async (_, index) => {
      const code = `${codeOf('for (;;) {}')} // ${index}`;
      over.push(endOf(await sandbox.runCode('burner', code)));
    });
    expect(endOf(await sandbox.runCode('other', GOOD))).toBe('ok{"raw":1}');
    expect(over).toEqual([]);
    await Promise.all(burning);
  } finally {
    await sandbox.close();
  }
});

test('runs with inputs of megabytes stay in their executor, which gives their memory back', async () => {
  const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, cpuMs: 5000, wallMs: 20_000 } });
  try {
    const args = Array.from({ length: 5 }, () => 'x'.repeat(900_000));
    const pids = new Set<number | undefined>();
    for (let each = 0; each < 24; each += 1) {
      expect(endOf(await sandbox.runCode('a', codeOf('return { raw: args.length };'), { args }))).toBe('ok{"raw":5}');
      pids.add(sandbox.executors().find(({ tenant_id }) => tenant_id === 'a')?.pid);
    }
    expect(pids.size).toBe(1);
  } finally {
    await sandbox.close();
  }
});

describe('on a server', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ BODY_BYTES_MAX: String(8 * 1024 * 1024) });
  });
  afterAll(() => server.close());

  test('16 runs with args of 5 MB at once all succeed', async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const reactor = await makeReactor(server, {
      code: codeOf('return { raw: { length: args.text.length, args } };'),
      key,
    });
    const text = 'x'.repeat(2 * 1024 * 1024);
    const ids = await Promise.all([1, 2].map(() => tokenOf(server, text, {}, key)));
    const args = {
      text: ids.map((id) => `{{ ${id} }}`).join(''),
      more: Array.from({ length: 20_000 }, (_, n) => ({ n })),
    };
    const answers = await Promise.all(Array.from({ length: 16 }, () => react(server, reactor, args, { key })));
    expect(answers.map(({ status, text: body }) => (status === 200 ? 200 : body))).toEqual(Array(16).fill(200));
    expect(answers[0]?.body.raw).toEqual({ length: 2 * text.length, args: { ...args, text: text + text } });
  });

  test("the refusal beyond a tenant's share of memory names the limit", async () => {
    const tenant = await server.newTenant();
    const { api_key: key } = tenant;
    const reactor = await makeReactor(server, { code: codeOf('return { raw: args.text.length };'), key });
    const id = await tokenOf(server, 'x'.repeat(4 * 1024 * 1024), {}, key);
    const args = { text: `{{ ${id} }}` };
    const answers = await Promise.all(Array.from({ length: 40 }, () => react(server, reactor, args, { key })));
    const refused = answers.filter(({ status }) => status === 429);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
    expect(new Set(refused.map(({ body }) => body.detail))).toEqual(
      new Set(['The tenant has reached the limit of run bytes. Try again.']),
    );
    for (const { headers } of refused) expect(headers.get('retry-after')).toBe('1');
  });
});
