// The embedded PostgreSQL: one server per data directory, found again after a crash, without loss of acknowledged rows.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, readdir, stat, truncate, unlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { superuser } from '../../src/platform/dev-postgres/connection.ts';
import { findRunningPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { StartError } from '../../src/platform/base/errors.ts';
import { it, postmasterPid, processesOf, programThatStarts, query } from '../support/embedded.ts';
import { killIfAlive, root } from '../support/process.ts';

describe.concurrent('the built-in PostgreSQL', { timeout: 60_000 }, () => {
  it('is made at the first start, stops when told, and keeps its rows and its password', async ({ dataDir, start }) => {
    const first = await start();
    expect(first).toMatchObject({ firstStart: true, startedByUs: true });
    expect(first.address).toMatchObject({ host: '127.0.0.1', user: 'strongroom', database: 'strongroom' });
    await query(first.address, 'CREATE TABLE kept AS SELECT 1 AS id');
    await first.stop();
    expect(await processesOf(dataDir)).toEqual([]);
    expect(await findRunningPostgres(dataDir)).toBeUndefined();
    await first.stop();

    const second = await start();
    expect(second).toMatchObject({ firstStart: false, startedByUs: true });
    expect(second.address.password).toBe(first.address.password);
    expect(await query(second.address, 'SELECT id FROM kept')).toEqual([{ id: 1 }]);
    await second.stop();
  });

  it('writes to disk before it acknowledges, listens on loopback only and wants its password', async ({ start }) => {
    const { address, stop } = await start();
    const settings = `SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit',
      'data_checksums', 'listen_addresses', 'unix_socket_directories', 'server_encoding', 'password_encryption')`;
    const rows = (await query({ ...address, user: superuser }, settings)) as { name: string; setting: string }[];
    expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
      fsync: 'on',
      full_page_writes: 'on',
      synchronous_commit: 'on',
      data_checksums: 'on',
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      server_encoding: 'UTF8',
      password_encryption: 'scram-sha-256',
    });
    await expect(query({ ...address, password: 'guessed' }, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
    const outward = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    for (const { address: host } of outward.filter(({ internal, family }) => !internal && family === 'IPv4')) {
      expect(await canConnect(host, address.port)).toBe(false);
    }
    await stop();
  });

  it('keeps its files private, and the text of statements out of its log', async ({ dataDir, start }) => {
    const { address, stop } = await start();
    const modes = ['.', 'pg', 'pg/strongroom.password', 'postgres.log'].map(async (name) =>
      ((await stat(join(dataDir, name))).mode & 0o777).toString(8),
    );
    expect(await Promise.all(modes)).toEqual(['700', '700', '600', '600']);
    await query(address, "SELECT 'never-to-be-logged'::int").catch(() => undefined);
    await query(address, 'CREATE TABLE one (id text PRIMARY KEY)');
    await query(address, "INSERT INTO one VALUES ('secret-id'), ('secret-id')").catch(() => undefined);
    await stop();
    const text = await readFile(join(dataDir, 'postgres.log'), 'utf8');
    expect(text).toContain('duplicate key');
    expect(text).not.toContain('secret-id');
    expect(text).not.toContain('INSERT');
    expect(text).not.toContain(address.password);
  });

  it('lends an ordinary role, from which its own rows can be kept', async ({ start }) => {
    const { address, stop } = await start();
    const [role] = await query(
      address,
      `SELECT rolsuper, rolcreaterole, rolreplication, rolbypassrls, pg_get_userbyid(datdba) AS owner
       FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()`,
    );
    const powers = { rolsuper: false, rolcreaterole: false, rolreplication: false, rolbypassrls: false };
    expect(role).toEqual({ ...powers, owner: address.user });
    await query(address, 'CREATE TABLE kept AS SELECT 1 AS id; REVOKE UPDATE, DELETE ON kept FROM CURRENT_USER');
    await expect(query(address, 'DELETE FROM kept')).rejects.toMatchObject({ code: '42501' });
    await query(address, 'INSERT INTO kept VALUES (2)');
    await query(address, 'VACUUM kept');
    // All tests rely on it: the owner drops a database in which a connection is open.
    await query(address, 'CREATE DATABASE another TEMPLATE template0');
    const inside = query({ ...address, database: 'another' }, 'SELECT pg_sleep(60)').catch(() => 'cut');
    await pause(200);
    await query(address, 'DROP DATABASE another WITH (FORCE)');
    expect(await inside).toBe('cut');
    await stop();
  });

  it('hands over what a release before the ordinary role owned as superuser', async ({ start }) => {
    const first = await start();
    const { address } = first;
    const asRoot = { ...address, user: superuser, database: 'postgres' };
    // Back to what such a release left: a superuser by the role's name, who owns everything.
    await query(asRoot, `DROP DATABASE "${address.database}"`);
    await query(
      asRoot,
      `DROP ROLE "${address.user}"; CREATE ROLE other SUPERUSER; SET SESSION AUTHORIZATION other;
       ALTER ROLE "${superuser}" RENAME TO "${address.user}"; RESET SESSION AUTHORIZATION; DROP ROLE other`,
    );
    await query({ ...address, database: 'postgres' }, `CREATE DATABASE "${address.database}" TEMPLATE template0`);
    await query(address, 'CREATE TABLE kept (id serial PRIMARY KEY); CREATE TABLE "Odd name" AS SELECT 1 AS id');
    await query(address, 'INSERT INTO kept DEFAULT VALUES');
    await first.stop();

    const next = await Promise.all([start(), start(), start()]);
    expect(next.map((each) => each.address)).toEqual(Array(3).fill(next[0]!.address));
    const [role] = await query(next[0]!.address, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user');
    expect(role).toEqual({ rolsuper: false });
    expect(await query(next[0]!.address, 'INSERT INTO kept DEFAULT VALUES RETURNING id')).toEqual([{ id: 2 }]);
    await query(
      next[0]!.address,
      'REVOKE DELETE ON kept FROM CURRENT_USER; ALTER TABLE "Odd name" ADD COLUMN more int',
    );
    await expect(query(next[0]!.address, 'DELETE FROM kept')).rejects.toMatchObject({ code: '42501' });
    expect(
      await query({ ...next[0]!.address, user: superuser }, 'SELECT rolname FROM pg_roles WHERE rolcanlogin'),
    ).toHaveLength(2);
    await next[0]!.stop();
  });

  it('outlives a killed application, and the next start takes it over', async ({ dataDir, start }) => {
    const application = spawn(process.execPath, ['--eval', programThatStarts(dataDir)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: root,
    });
    await once(application.stdout, 'data');
    application.kill('SIGKILL');
    await once(application, 'exit');

    const running = await findRunningPostgres(dataDir);
    expect(running).toBeDefined();
    const next = await start();
    expect(next).toMatchObject({ address: running, firstStart: false, startedByUs: false });
    await next.stop();
    expect(await processesOf(dataDir)).toEqual([]);
  });

  it('recovers every acknowledged row after all its processes were killed', async ({ dataDir, start }) => {
    const { address } = await start();
    await query(address, 'CREATE TABLE kept (id int)');
    const acknowledged: number[] = [];
    const writers = [0, 1, 2, 3].map(async (writer) => {
      for (let number = writer; ; number += 4) {
        await query(address, `INSERT INTO kept VALUES (${number})`);
        acknowledged.push(number);
      }
    });
    while (acknowledged.length < 100) await pause(5);
    for (const pid of await processesOf(dataDir)) killIfAlive(pid);
    await Promise.allSettled(writers);

    const again = await start();
    expect(again.startedByUs).toBe(true);
    const rows = (await query(again.address, 'SELECT id FROM kept')) as { id: number }[];
    const ids = new Set(rows.map(({ id }) => id));
    expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);
    await again.stop();
  });

  it('waits for the orphans of a killed server to go', async ({ dataDir, start }) => {
    const { address } = await start();
    const busy = query(address, 'SELECT pg_sleep(1.5)').catch(() => undefined);
    await pause(100);
    process.kill(await postmasterPid(dataDir), 'SIGKILL');
    const again = await start();
    expect(again.startedByUs).toBe(true);
    await busy;
    await again.stop();
  });

  it('is not fooled by another process that got the pid of the last server', async ({ dataDir, events, start }) => {
    const { stop } = await start();
    const pidFile = join(dataDir, 'pg/postmaster.pid');
    const record = (await readFile(pidFile, 'utf8')).split('\n');
    await stop();
    await writeFile(pidFile, [process.pid, ...record.slice(1)].join('\n'), { mode: 0o600 });
    expect(await findRunningPostgres(dataDir)).toBeUndefined();
    const again = await start();
    expect(again.startedByUs).toBe(true);
    expect(events).toContain('postgres_stale_pid_removed');
    await again.stop();
  });

  it('is one and the same for processes that start at once', async ({ dataDir, start }) => {
    await mkdir(join(dataDir, 'pg.new-999999999-abandoned'), { recursive: true });
    const servers = await Promise.all([start(), start(), start()]);
    expect(new Set(servers.map(({ address }) => JSON.stringify(address))).size).toBe(1);
    expect(servers.filter(({ firstStart }) => firstStart)).toHaveLength(1);
    expect(servers.filter(({ startedByUs }) => startedByUs)).toHaveLength(1);
    expect((await readdir(dataDir)).toSorted()).toEqual(['pg', 'postgres.log']);
    await servers[0]!.stop();
  });

  it('runs in a directory whose name holds a space, and bounds its log', async ({ dataDir, start }) => {
    const spaced = join(dataDir, 'with a space');
    const first = await start(spaced);
    await first.stop();
    await truncate(join(spaced, 'postgres.log'), 6 * 1024 * 1024);
    const second = await start(spaced);
    await second.stop();
    expect((await stat(join(spaced, 'postgres.log.1'))).size).toBe(6 * 1024 * 1024);
    expect((await stat(join(spaced, 'postgres.log'))).size).toBeLessThan(100_000);
  });

  it('says at once that its files are damaged, and what to do', async ({ dataDir, events, start }) => {
    const { stop } = await start();
    await stop();
    const control = join(dataDir, 'pg/global/pg_control');
    const bytes = await readFile(control);
    await writeFile(control, bytes.fill(0x55, 16, 64));
    await expect(start()).rejects.toThrow(/is damaged, .*Restore the directory from a backup/);
    await truncate(control, 10);
    await expect(start()).rejects.toThrow(/is damaged/);
    expect(events.filter((event) => event === 'postgres_start_failed')).toHaveLength(2);
  });

  it.runIf(process.geteuid?.() === 0)('is not root even when we are', async ({ dataDir, start }) => {
    const { stop } = await start();
    const pid = await postmasterPid(dataDir);
    const [status, map] = await Promise.all([
      readFile(`/proc/${pid}/status`, 'utf8'),
      readFile(`/proc/${pid}/uid_map`, 'utf8'),
    ]);
    const isMapped = map.trim().split(/\s+/).join(' ') === '1000 0 1';
    expect(isMapped || !/^Uid:\s+0\s/m.test(status)).toBe(true);
    expect(status).toMatch(/^CapEff:\s+0+[04]?$/m);
    await stop();
  });

  it('says what to do about a directory of another version or owner, and a changed password', async ({
    dataDir,
    start,
  }) => {
    const { address, stop } = await start();
    await writeFile(join(dataDir, 'pg/strongroom.password'), 'another');
    await expect(findRunningPostgres(dataDir)).rejects.toThrow(StartError);
    await stop();
    await writeFile(join(dataDir, 'pg/strongroom.password'), address.password);
    await writeFile(join(dataDir, 'pg/PG_VERSION'), '17\n');
    await expect(start()).rejects.toThrow(/PostgreSQL 17/);
    await unlink(join(dataDir, 'pg/PG_VERSION'));
    await expect(start()).rejects.toThrow(/holds no PostgreSQL/);
  });
});

const canConnect = async (host: string, port: number): Promise<boolean> => {
  const socket = connect({ host, port });
  const connected = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return connected;
};
