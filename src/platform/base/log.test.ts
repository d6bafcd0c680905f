// Standard output of the log, in separate processes: nothing is lost at exit, and the buffer is limited without a reader.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** A process that has `log`. Its standard output is a pipe. @param late in s, how much later its reader comes. */
const start = (code: string, late = 0) => {
  const module = JSON.stringify(fileURLToPath(new URL('./log.ts', import.meta.url)));
  const text = `import { createLog } from ${module}; const log = createLog('info'); ${code}`;
  const pipeline = `"$0" "$@" | (sleep ${late}; exec cat)`;
  const command = ['sh', '-c', pipeline, process.execPath, '--input-type=module', '-e', text];
  return spawn('env', command, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
};

/** Ends all of the pipeline: its shell alone would leave the process that logs behind. */
const end = ({ pid }: ReturnType<typeof start>): boolean => process.kill(-(pid as number), 'SIGKILL');

const linesOf = async (child: ReturnType<typeof start>): Promise<Record<string, unknown>[]> => {
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  child.stderr.resume();
  await once(child, 'close');
  expect(text.endsWith('\n')).toBe(true);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
};

const MANY = 3000;
const write = (count: number): string => `for (let n = 0; n < ${count}; n += 1) log.info({ n }, 'a line');`;

test.each([
  ['an end by itself', write(MANY)],
  ['process.exit in the same moment', `${write(MANY)} process.exit(0);`],
  ['an exception that nobody caught', `${write(MANY)} throw new Error('unexpected');`],
  [
    'process.exit after rounds of a few lines',
    `for (let round = 0; round < 20; round += 1) { ${write(5)} await new Promise(setImmediate); } process.exit(0);`,
  ],
])('all lines come, in order: %s', async (_, code) => {
  const lines = await linesOf(start(code));
  const wanted = code.includes('round') ? Array.from({ length: 100 }, (__, at) => at % 5) : [...Array(MANY).keys()];
  expect(lines.map(({ n }) => n)).toEqual(wanted);
});

test('all lines come in order where the process ends with lines waiting for a late reader', async () => {
  const code = `
    let n = 0;
    const write = (count) => { for (const end = n + count; n < end; n += 1) log.info({ n, note: 'x'.repeat(200) }, 'a line'); };
    for (let round = 0; round < 4; round += 1) { write(26); await new Promise(setImmediate); }
    write(300);
    process.exit(0);`;
  const lines = await linesOf(start(code, 0.4));
  expect(lines.map(({ n }) => n)).toEqual([...Array(404).keys()]);
});

test('a line comes while the process goes on', async () => {
  const child = start(`log.info({ n: 1 }, 'a line'); setInterval(() => undefined, 1000);`);
  try {
    const [piece] = (await once(child.stdout, 'data')) as [Buffer];
    const line = JSON.parse(piece.toString());
    expect(line).toMatchObject({ level: 'info', n: 1, msg: 'a line' });
  } finally {
    end(child);
  }
});

test('without a reader the buffer is limited, and lines stay whole', async () => {
  const child = start(`
    const note = 'x'.repeat(1000);
    for (let round = 0; round < 1000; round += 1) {
      for (let n = 0; n < 100; n += 1) log.info({ n, note }, 'a line');
      await new Promise(setImmediate);
    }
    process.stderr.write('all are written');
    const again = setInterval(() => log.info('again'), 50);
    setTimeout(() => clearInterval(again), 1500);`);
  // Nobody reads until all 100 MB have been written.
  await once(child.stderr, 'data');
  await pause(100);
  const lines = await linesOf(child);
  expect(lines.length).toBeGreaterThan(10_000);
  expect(lines.length).toBeLessThan(20_000);
  // What is missing is told as soon as there is room.
  const result = lines.filter(({ msg }) => msg === 'lines of the log were dropped');
  expect(result.length).toBeGreaterThan(0);
});
