// Executors are started by another process: the server forks once, loses nothing that they send, and learns how they end.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { createSpawner, type Ending, type Spawned } from './spawner.ts';

const spawner = createSpawner();
afterEach(() => spawner.close());

/** The shell waits until the server has the socket, as a launcher does. */
const shell = (script: string) => ({ command: '/bin/sh', args: ['-c', `read -r go; ${script}`] });

const start = async (script: string): Promise<Spawned> => {
  const spawned = await spawner.start(shell(script));
  if (!('socket' in spawned)) throw new Error(spawned.words);
  return spawned;
};

const readAll = async ({ socket }: Spawned): Promise<string> => {
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
};

const childrenOf = (pid: number): string[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);

test('the server has one more child process, however many executors it starts', async () => {
  const before = childrenOf(process.pid).length;
  const spawned = await Promise.all(Array.from({ length: 6 }, () => start('exec sleep 60')));
  expect(childrenOf(process.pid)).toHaveLength(before + 1);
  for (const { kill } of spawned) kill();
  const endings = await Promise.all(spawned.map(({ ended }) => ended));
  expect(endings.map(({ signal }) => signal)).toEqual(Array(6).fill('SIGKILL'));
});

test('all that a command sends arrives, and all that is sent to it', async () => {
  const spawned = await Promise.all(Array.from({ length: 10 }, () => start('echo first >&3; head -n 1 <&3 >&3')));
  for (const { socket } of spawned) socket.write('second\n');
  expect(await Promise.all(spawned.map(readAll))).toEqual(Array(10).fill('first\nsecond\n'));
});

const parentOf = (pid: number): number =>
  Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

describe('a process that starts them and is stopped', () => {
  const limits = { startMs: 20_000, killMs: 100 };
  const hasty = createSpawner(limits);
  afterEach(() => hasty.close());

  const startStopped = async (): Promise<Spawned> => {
    const spawned = (await hasty.start(shell('exec sleep 60'))) as Spawned;
    process.kill(parentOf(spawned.pid), 'SIGSTOP');
    return spawned;
  };

  test('is replaced when a start gets no answer', async () => {
    const spawned = await startStopped();
    spawned.ready();
    limits.startMs = 100;
    const lost = await hasty.start(shell('exec sleep 60'));
    limits.startMs = 20_000;
    const ending = { code: null, signal: null, words: 'the spawner does not answer' };
    expect([lost, await spawned.ended]).toEqual([ending, ending]);
    process.kill(spawned.pid, 'SIGKILL');
    expect(await readAll((await hasty.start(shell('echo again >&3'))) as Spawned)).toBe('again\n');
  });

  test('is replaced when it does not kill, and does not hold up the end', async () => {
    const killed = await startStopped();
    killed.ready();
    killed.kill();
    expect((await killed.ended).words).toBe('the spawner does not answer');
    process.kill(killed.pid, 'SIGKILL');
    const left = await startStopped();
    await hasty.close();
    expect((await left.ended).code).toBeNull();
    process.kill(left.pid, 'SIGKILL');
  });
});

test('a command that is not ready in time is killed', async () => {
  const limits = { startMs: 20_000, killMs: 20_000 };
  const slow = createSpawner(limits);
  await slow.start(shell('true'));
  limits.startMs = 2_000;
  const spawned = (await slow.start(shell('exec sleep 60'))) as Spawned;
  expect(await spawned.ended).toMatchObject({ signal: 'SIGKILL', words: 'it is not ready after 2000 ms' });
  await slow.close();
});

describe('the end of a command is told', () => {
  const endOf = async (spawned: Spawned | Ending): Promise<Ending> => ('ended' in spawned ? spawned.ended : spawned);

  test('with what it wrote about an error', async () => {
    expect(await endOf(await start('echo why >&2; exit 3'))).toMatchObject({ code: 3, signal: null, words: 'why' });
  });

  test('where there is no such command', async () => {
    const ending = await endOf(await spawner.start({ command: '/no/such', args: [] }));
    expect(ending).toMatchObject({ code: null, words: 'spawn /no/such ENOENT' });
  });

  test('where the process that starts them has ended; the next start starts another', async () => {
    const spawned = await start('exec sleep 60');
    process.kill(parentOf(spawned.pid), 'SIGKILL');
    expect((await spawned.ended).words).toBe('the spawner has ended');
    process.kill(spawned.pid, 'SIGKILL');
    expect(await readAll(await start('echo again >&3'))).toBe('again\n');
  });
});
