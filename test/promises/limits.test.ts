// Every limit is a named constant; what grows has a bound. The bounds of the write queue, and fairness within it.
import { expect, test } from 'vitest';
import { createAccounts } from '../../src/platform/base/accounts.ts';
import { createMetrics } from '../../src/platform/metrics/metrics.ts';
import { createBatcher as createBatcherFor } from '../../src/platform/db/batcher.ts';
import { AppError, conflict, unavailable } from '../../src/platform/base/errors.ts';

const createBatcher = <Result>(run: (tenant: string, rows: string) => Promise<Result[] | void>, batchesMax: number) =>
  createBatcherFor(run, batchesMax, createAccounts(), createMetrics(), 'logs');

const tick = () => new Promise((resolve) => setImmediate(resolve));

test('requests that arrive together are written together, and no batch mixes tenants', async () => {
  const written: [string, number][] = [];
  const batcher = createBatcher(async (tenant, rows) => {
    written.push([tenant, (JSON.parse(rows) as unknown[]).length]);
    await tick();
  }, 1);
  await Promise.all(Array.from({ length: 30 }, (_, index) => batcher.submit(index % 3 === 0 ? 'a' : 'b', ['1'])));
  expect(written.reduce((sum, [, rows]) => sum + rows, 0)).toBe(30);
  expect(written.length).toBeLessThan(30);
  expect(written.filter(([tenant]) => tenant === 'a').reduce((sum, [, rows]) => sum + rows, 0)).toBe(10);
});

test('a tenant has one batch under way, and others go beside it', async () => {
  const under: string[] = [];
  const ends: (() => void)[] = [];
  const batcher = createBatcher((tenant, rows) => {
    under.push(`${tenant} ${rows}`);
    return new Promise<void>((resolve) => ends.push(resolve));
  }, 2);
  const all = [batcher.submit('a', ['1'])];
  await tick();
  all.push(
    batcher.submit('a', ['2']),
    batcher.submit('b', ['3']),
    batcher.submit('a', ['4']),
    batcher.submit('c', ['5']),
  );
  await tick();
  expect(under).toEqual(['a [1]', 'b [3]']);
  ends.shift()?.();
  await tick();
  // Waiting items run together, in their order of arrival.
  expect(under).toEqual(['a [1]', 'b [3]', 'a [2,4]']);
  ends.shift()?.();
  await tick();
  expect(under.at(-1)).toBe('c [5]');
  for (const end of ends) end();
  await Promise.all(all);
  await batcher.drain();
});

test('one batch of a tenant is under way, and a slow one holds the next up only for a while', async () => {
  const sizes: number[] = [];
  const ends: (() => void)[] = [];
  const batcher = createBatcher((_, rows) => {
    sizes.push((JSON.parse(rows) as unknown[]).length);
    return new Promise<void>((resolve) => ends.push(resolve));
  }, 3);
  const forty = Array.from({ length: 40 }, () => '1');
  const all = Array.from({ length: 7 }, () => batcher.submit('slow', forty));
  await tick();
  expect(sizes).toEqual([200]);
  all.push(batcher.submit('slow', ['1']));
  await tick();
  expect(sizes).toEqual([200]);
  while (sizes.length === 1) await tick();
  expect(sizes).toEqual([200, 81]);
  for (const end of ends) end();
  await Promise.all(all);
  await batcher.drain();
});

test('a batch that fails is retried request by request: one bad row fails one request', async () => {
  const batcher = createBatcher(async (_, rows) => {
    if (rows.includes('"bad"')) throw conflict('taken');
  }, 1);
  const results = await Promise.allSettled(['"a"', '"bad"', '"b"'].map((row) => batcher.submit('t', [row])));
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});

test('without a database every waiting request gets an error, and nothing is retried', async () => {
  let calls = 0;
  const batcher = createBatcher(async () => {
    calls += 1;
    throw unavailable();
  }, 1);
  const results = await Promise.allSettled(['1', '2', '3'].map((row) => batcher.submit('t', [row])));
  expect(results.every(({ status }) => status === 'rejected')).toBe(true);
  expect(calls).toBeLessThanOrEqual(2);
});

test('a batch has at most 200 rows, and a request is never split', async () => {
  const sizes: number[] = [];
  const batcher = createBatcher(async (_, rows) => {
    sizes.push((JSON.parse(rows) as unknown[]).length);
    await tick();
  }, 1);
  await Promise.all(
    Array.from({ length: 40 }, () =>
      batcher.submit(
        't',
        Array.from({ length: 30 }, () => '1'),
      ),
    ),
  );
  expect(Math.max(...sizes)).toBeLessThanOrEqual(200);
  expect(sizes.every((size) => size % 30 === 0)).toBe(true);
  await batcher.submit(
    't',
    Array.from({ length: 1000 }, () => '1'),
  );
  expect(sizes.at(-1)).toBe(1000);
});

test('a queue in which a tenant has its share refuses the tenant, takes others, and recovers', async () => {
  const waiting: (() => void)[] = [];
  const batcher = createBatcher(() => new Promise<void>((resolve) => waiting.push(resolve)), 1);
  const rows = Array.from({ length: 45 }, () => '1');
  const accepted: Promise<unknown>[] = [];
  const refusals: unknown[] = [];
  for (let index = 0; index < 2000; index += 1) {
    accepted.push(batcher.submit('t', rows).catch((error: unknown) => void refusals.push(error)));
    if (index % 100 === 0) await tick();
  }
  await tick();
  expect(refusals.length).toBeGreaterThan(0);
  const [refused] = refusals;
  expect(refused).toBeInstanceOf(AppError);
  expect((refused as AppError).code).toBe('too_many_requests');
  accepted.push(batcher.submit('other', rows));
  const release = setInterval(() => waiting.splice(0).forEach((resolve) => resolve()), 1);
  await batcher.drain();
  clearInterval(release);
  await Promise.all(accepted);
});

test('tenants take turns: one with much waiting does not hold up another', async () => {
  const order: string[] = [];
  const batcher = createBatcher(async (tenant) => {
    order.push(tenant);
    await tick();
  }, 1);
  const busy = Array.from({ length: 100 }, () =>
    batcher.submit(
      'busy',
      Array.from({ length: 40 }, () => '1'),
    ),
  );
  await tick();
  await batcher.submit('quiet', ['1']);
  expect(order.indexOf('quiet')).toBeLessThanOrEqual(3);
  await Promise.all(busy);
});
