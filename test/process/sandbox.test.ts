// Untrusted code cannot persist, starve others, crash the server, escape, or impersonate.
// With the real sandbox, both modes of isolation, and each isolation by the system that works here.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AppError } from '../../src/platform/base/errors.ts';
import type { WallKind } from '../../src/platform/sandbox/protocol/sandbox.ts';
import { hostilePrograms } from '../hostile/programs.ts';
import { endOf, findWalls, openTestSandbox, SMALL_LIMITS, type TestSandbox } from '../support/sandbox.ts';

const GOOD = 'module.exports = async (req) => ({ raw: { n: req.args.n + 1, clean: ({}).polluted === undefined } });';

const walls = await findWalls();

const violations = ({ events }: TestSandbox) => events.filter(({ event }) => event === 'violation');

/** Long enough that what uses up its CPU time does so first, on a machine that has more to do. */
const HOSTILE_LIMITS = { ...SMALL_LIMITS, cpuMs: 150, wallMs: 6000 };

describe('hostile programs, with a fresh context for each run and with a fresh isolate', () => {
  /** A sandbox with a second tenant, who calls all the while and is to notice nothing. */
  const openWithNeighbour = async (mode: Mode) => {
    const sandbox = await openTestSandbox({ ...mode, limits: HOSTILE_LIMITS });
    const ends: string[] = [];
    let isOver = false;
    const call = async () => {
      for (let n = 0; !isOver; n += 1) {
        const end = endOf(await sandbox.runCode('neighbour', GOOD, { args: { n } }));
        ends.push(end === `ok{"raw":{"n":${n + 1},"clean":true}}` ? 'ok' : end);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    const neighbour = call();
    const close = async () => {
      isOver = true;
      await neighbour;
      await sandbox.close();
    };
    return { mode: `${mode.isolation} behind ${mode.wallKind}`, sandbox, ends, close };
  };

  type Mode = { isolation: 'context' | 'isolate'; wallKind: WallKind | 'auto' };
  // Each isolation, and each wall.
  const modes: Mode[] = [
    { isolation: 'context', wallKind: walls[0] ?? 'auto' },
    { isolation: 'isolate', wallKind: walls[1] ?? walls[0] ?? 'auto' },
  ];
  let opened: Awaited<ReturnType<typeof openWithNeighbour>>[];
  beforeAll(async () => {
    opened = await Promise.all(modes.map(openWithNeighbour));
  });
  afterAll(() => Promise.all(opened.map(({ close }) => close())));

  test.each(hostilePrograms)('$group: $name', async ({ group, code, ends: allowed }) => {
    const tenant = `hostile ${group}`;
    const runs = opened.map(async ({ mode, sandbox }) => {
      const outcome = await sandbox.runCode(tenant, code);
      expect(allowed, mode).toContain(endOf(outcome));
      const next = await sandbox.runCode(tenant, GOOD, { args: { n: 1 } });
      expect(endOf(next), mode).toBe('ok{"raw":{"n":2,"clean":true}}');
    });
    await Promise.all(runs);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test('the neighbour had no error all the while', () => {
    for (const { mode, ends } of opened) {
      expect(ends.length, mode).toBeGreaterThan(20);
      expect(
        ends.filter((end) => end !== 'ok'),
        mode,
      ).toEqual([]);
    }
  });

  test('no executor broke the protocol', () => {
    for (const { mode, sandbox } of opened) expect(violations(sandbox), mode).toEqual([]);
  });
});

describe('state', () => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openTestSandbox();
  });
  afterAll(() => sandbox.close());

  test('nothing of a run is seen by the next one of the same code', async () => {
    const code = `
      const seen = [globalThis.x, module.y, require('util').z, RegExp.$1, Array.prototype.w, Error.prepareStackTrace, Buffer.q, process.env.k];
      globalThis.x = 1; module.y = 1; require('util').z = 1; /(b)/.test('b'); Array.prototype.w = 1; Buffer.q = 1;
      Error.prepareStackTrace = () => 1;
      setTimeout(() => { globalThis.late = 1; }, 5);
      module.exports = async () => { await new Promise((r) => setTimeout(r, 20)); return { raw: [...seen.map((v) => v ?? null), globalThis.other ?? null] }; };`;
    const first = await sandbox.runCode('a', code);
    const [second, third] = await Promise.all([sandbox.runCode('a', code), sandbox.runCode('a', code)]);
    expect(endOf(first)).toBe('ok{"raw":[null,null,null,"",null,null,null,null,null]}');
    expect(endOf(second)).toBe(endOf(first));
    expect(endOf(third)).toBe(endOf(first));
  });

  test('a timer of an earlier run never comes in a later one', async () => {
    const leave =
      'module.exports = () => { setInterval(() => { globalThis.n = (globalThis.n || 0) + 1; }, 1); return { raw: 0 }; };';
    const look =
      'module.exports = async () => { await new Promise((r) => setTimeout(r, 50)); return { raw: globalThis.n || 0 }; };';
    await sandbox.runCode('b', leave);
    expect(endOf(await sandbox.runCode('b', look))).toBe('ok{"raw":0}');
  });

  test('calls still under way when the run ends are told to stop', async () => {
    let stopped = 0;
    const code =
      'module.exports = () => { fetch("https://example.com"); fetch("https://example.com"); return { raw: 1 }; };';
    const outcome = await sandbox.runCode('c', code, {
      answerCall: ({ signal }) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => {
            stopped += 1;
            resolve({});
          }),
        ),
    });
    expect(endOf(outcome)).toBe('ok{"raw":1}');
    expect(stopped).toBe(2);
  });

  test('the 51st fetch is refused inside the code', async () => {
    const code = `module.exports = async () => {
      const results = await Promise.allSettled(Array.from({ length: 60 }, () => fetch('https://example.com')));
      return { raw: results.filter(({ status }) => status === 'fulfilled').length };
    };`;
    const answer = {
      status: 200,
      status_text: 'OK',
      headers: [],
      body: '',
      url: 'https://example.com/',
      redirected: false,
    };
    const outcome = await sandbox.runCode('d', code, { answerCall: () => Promise.resolve(answer) });
    expect(endOf(outcome)).toBe('ok{"raw":50}');
  });

  test("two tenants' code never shares a process", async () => {
    const seen = new Map<number, Set<string>>();
    const tenants = Array.from({ length: 6 }, (_, index) => `tenant ${index}`);
    for (let round = 0; round < 3; round += 1)
      await Promise.all(
        tenants.map(async (tenant) => {
          await sandbox.runCode(tenant, GOOD, { args: { n: 1 } });
          for (const { pid, tenant_id } of sandbox.executors())
            if (tenant_id !== undefined) seen.set(pid, (seen.get(pid) ?? new Set()).add(tenant_id));
        }),
      );
    expect([...seen.values()].filter((of) => of.size > 1)).toEqual([]);
    expect(seen.size).toBeGreaterThanOrEqual(6);
  });
});

test('a tenant over its share is asked to retry, and another is served', async () => {
  const sandbox = await openTestSandbox({ limits: { ...SMALL_LIMITS, wallMs: 3000 } });
  try {
    const slow = 'module.exports = async () => { await new Promise((r) => setTimeout(r, 300)); return { raw: 1 }; };';
    const many = Array.from({ length: 140 }, () =>
      sandbox.runCode('greedy', slow).then(endOf, ({ status, message }: AppError) => `${status} ${message}`),
    );
    const other = await sandbox.runCode('modest', GOOD, { args: { n: 1 } });
    expect(endOf(other)).toBe('ok{"raw":{"n":2,"clean":true}}');
    const ends = await Promise.all(many);
    expect(ends.filter((end) => end === 'ok{"raw":1}')).toHaveLength(128);
    const refused = '429 The tenant has reached the limit of runs. Try again.';
    expect(ends.filter((end) => end === refused)).toHaveLength(12);
  } finally {
    await sandbox.close();
  }
});

test.each([...walls, 'none' as const])('behind the wall %s code runs', async (wallKind) => {
  const sandbox = await openTestSandbox({ wallKind });
  try {
    expect(sandbox.wall?.kind).toBe(wallKind);
    expect(endOf(await sandbox.runCode('a', GOOD, { args: { n: 1 } }))).toBe('ok{"raw":{"n":2,"clean":true}}');
  } finally {
    await sandbox.close();
  }
});

test('where no wall stands it says so, and runs code only where that is allowed', async () => {
  const sandbox = await openTestSandbox({ wallKind: 'none', allowWeak: false });
  try {
    expect(sandbox.events.map(({ event }) => event)).toContain('no_wall');
    expect(endOf(await sandbox.runCode('a', GOOD, { args: { n: 1 } }))).toBe('NO_WALL');
    expect(await sandbox.check('a', GOOD)).toEqual({ code: 'NO_WALL' });
  } finally {
    await sandbox.close();
  }
});

test('a sandbox that cannot start says what it tried', async () => {
  const start = openTestSandbox({ executorPath: '/nowhere/executor.js' });
  await expect(start).rejects.toThrow(/nowhere/);
});
