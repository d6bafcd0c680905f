// An import that is stopped: by a kill, or by a full disk. The same command continues it.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { asCards } from '../support/card-numbers.ts';
import { createMove } from '../support/move.ts';
import { root } from '../support/process.ts';

const { cards, command, environment, faultsOf, linesOf, path, read, smallFiles } = createMove();

test('a run that was killed continues: every row is in the result once', async () => {
  const { rows, csv } = cards(6_000);
  writeFileSync(path('in.csv'), `${csv}bad,1,9,2031,x\n`);
  const child = spawn(process.execPath, [join(root, 'src/cli/main.ts'), 'import', path('in.csv'), ...asCards], {
    env: environment(),
    stdio: 'ignore',
    detached: true,
  });
  const state = (): number => {
    try {
      return JSON.parse(read('in.csv.result.state')).at as number;
    } catch {
      return 0;
    }
  };
  while (state() < 1_000 && child.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 5));
  const exited = new Promise((resolve) => child.once('exit', resolve));
  process.kill(-(child.pid as number), 'SIGKILL');
  await exited;
  expect(state()).toBeLessThan(6_000);
  const other = await command('import', path('in.csv'), '--format', 'csv', '--id', 'card_id', '--map', 'number=pan');
  expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('belongs to another file or other options')]);
  const { code, stdout, stderr } = await command('import', path('in.csv'), ...asCards, '--json');
  expect(stderr).toContain('Continues after row ');
  expect([code, JSON.parse(stdout)]).toMatchObject([1, { rows: 6_001, faults: 1 }]);
  expect(
    linesOf('in.csv.result')
      .slice(1)
      .map((line) => line.split(',')[0]),
  ).toEqual(rows.map(({ id }) => id));
  expect(faultsOf('in.csv.result.faults')).toHaveLength(1);
  expect(existsSync(path('in.csv.result.state'))).toBe(false);
});

test('a full disk ends it with what to do, and the same command continues', async () => {
  const { rows, csv } = cards(3_000);
  writeFileSync(path('in.csv'), csv);
  const words = [process.execPath, join(root, 'src/cli/main.ts'), 'import', path('in.csv'), ...asCards];
  // 32 KiB for each file.
  const full = spawnSync('bash', ['--norc', '-c', 'ulimit -f 32; exec "$@"', 'bash', ...words], {
    env: smallFiles(),
    encoding: 'utf8',
  });
  expect([full.status, full.stderr]).toEqual([1, expect.stringContaining('cannot be written (EFBIG). Make room')]);
  const { code } = await command('import', path('in.csv'), ...asCards);
  expect(code).toBe(0);
  expect(linesOf('in.csv.result')).toHaveLength(rows.length + 1);
});
