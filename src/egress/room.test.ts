// Room for bodies: who gets it, in which order, and that nobody is stuck.
import { expect, test } from 'vitest';
import { EgressFault } from './fault.ts';
import { createBodyRooms, type RoomLimits, roomLimits } from './room.ts';

const open = (limits: Partial<RoomLimits> = {}) => {
  const rooms = createBodyRooms({ answerBytesMax: 100, answerBytesPerTenantMax: 60, roomWaitMs: 5_000, ...limits });
  const granted: string[] = [];
  /** Waits in the background and notes when it is given room. */
  const ask = (tenant_id: string, bytes: number, signal?: AbortSignal) => {
    const room = rooms.takeForAnswer(tenant_id, bytes, signal);
    const code = room.then(
      () => {
        granted.push(`${tenant_id}${bytes}`);
        return 'granted';
      },
      (error: unknown) => (error instanceof EgressFault ? error.code : 'unknown'),
    );
    return { room, code };
  };
  return { rooms, granted, ask };
};

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('first come, first served within a tenant: a small one does not pass a large one', async () => {
  const { rooms, granted, ask } = open();
  const held = await rooms.takeForAnswer('a', 30, undefined);
  ask('a', 40);
  ask('a', 10);
  await turn();
  expect(granted).toEqual([]);
  held.release();
  await turn();
  expect(granted).toEqual(['a40', 'a10']);
});

test('nobody waits for a tenant that has its share, and nobody passes one that waits for the room of all', async () => {
  const { rooms, granted, ask } = open();
  const a = await rooms.takeForAnswer('a', 50, undefined);
  ask('a', 20);
  ask('b', 20);
  await turn();
  expect(granted).toEqual(['b20']);
  ask('c', 40);
  ask('d', 10);
  await turn();
  expect(granted).toEqual(['b20']);
  a.release();
  await turn();
  expect(granted).toEqual(['b20', 'a20', 'c40', 'd10']);
});

test('one that gives up lets those behind it in', async () => {
  const { rooms, granted, ask } = open();
  await rooms.takeForAnswer('a', 50, undefined);
  const leaving = new AbortController();
  const large = ask('b', 60, leaving.signal);
  ask('c', 50);
  await turn();
  expect(granted).toEqual([]);
  leaving.abort();
  expect(await large.code).toBe('ABORTED');
  await turn();
  expect(granted).toEqual(['c50']);
});

test('the wait ends as BUSY, and what comes later is served', async () => {
  const { rooms, granted, ask } = open({ roomWaitMs: 20 });
  const held = await rooms.takeForAnswer('a', 60, undefined);
  expect(await ask('a', 1).code).toBe('BUSY');
  held.release();
  expect(await ask('a', 60).code).toBe('granted');
  expect(granted).toEqual(['a60']);
});

test('what never fits does not wait, nor does one that has been left', async () => {
  const { ask } = open();
  expect(await ask('a', 61).code).toBe('BUSY');
  expect(await ask('a', 1, AbortSignal.abort()).code).toBe('ABORTED');
  expect(await ask('a', 60).code).toBe('granted');
});

test('so many of a tenant wait and no more, and others are served meanwhile', async () => {
  const { rooms, granted, ask } = open();
  const held = await rooms.takeForAnswer('a', 60, undefined);
  for (let each = 0; each < 128; each += 1) ask('a', 1);
  expect(await ask('a', 2).code).toBe('BUSY');
  expect(await ask('b', 1).code).toBe('granted');
  held.release();
  await turn();
  // The share of the tenant holds for those that waited.
  expect(granted).toEqual(['b1', ...Array(60).fill('a1')]);
});

test('so many of all wait and no more, and what needs no wait is served', async () => {
  const { rooms, ask } = open({ answerBytesMax: 10 });
  await rooms.takeForAnswer('a', 5, undefined);
  for (let each = 0; each < 1_000; each += 1) ask(`b${each}`, 6);
  expect(await ask('c', 6).code).toBe('BUSY');
  rooms.close();
});

test('closing ends the wait, and nobody waits after it', async () => {
  const { rooms, ask } = open();
  const held = await rooms.takeForAnswer('a', 60, undefined);
  const waiting = [ask('a', 1), ask('a', 60), ask('b', 60)];
  rooms.close();
  expect(await Promise.all(waiting.map(({ code }) => code))).toEqual(['ABORTED', 'ABORTED', 'ABORTED']);
  expect(await ask('b', 1).code).toBe('ABORTED');
  held.release();
});

test('room is given back once: in part, whole, and not again', async () => {
  const { rooms, ask } = open({ roomWaitMs: 20 });
  const room = await rooms.takeForAnswer('a', 60, undefined);
  room.shrinkTo(70);
  expect(await ask('a', 1).code).toBe('BUSY');
  room.shrinkTo(20);
  const second = await rooms.takeForAnswer('a', 40, undefined);
  room.shrinkTo(30);
  expect(await ask('a', 1).code).toBe('BUSY');
  room.release();
  room.release();
  expect(await ask('a', 20).code).toBe('granted');
  expect(await ask('a', 1).code).toBe('BUSY');
  second.release();
  expect(await ask('a', 40).code).toBe('granted');
});

test('bodies of requests are counted apart, for each tenant and for all, and refused at once', () => {
  const { rooms } = open({ requestBytesMax: 100, requestBytesPerTenantMax: 60 });
  const isBusy = (tenant_id: string, bytes: number) =>
    expect(() => rooms.takeForRequest(tenant_id, bytes)).toThrow(new EgressFault('BUSY'));
  const first = rooms.takeForRequest('a', 60);
  isBusy('a', 1);
  rooms.takeForRequest('a', 0);
  isBusy('b', 41);
  rooms.takeForRequest('b', 40);
  isBusy('c', 1);
  first.release();
  rooms.takeForRequest('c', 60);
});

test('the house bounds answers at 32 MB a tenant and 128 MB for all, bodies of requests at 32 and 64, a wait at 10 s', () => {
  expect(roomLimits).toEqual({
    answerBytesMax: 134_217_728,
    answerBytesPerTenantMax: 33_554_432,
    requestBytesMax: 67_108_864,
    requestBytesPerTenantMax: 33_554_432,
    roomWaitMs: 10_000,
  });
});
