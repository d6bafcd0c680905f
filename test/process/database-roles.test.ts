// The SQL that gives a vault's database its roles: printed by the command line, run by psql on a PostgreSQL of its own, then
// migrated by the owner, served by the server and read by support.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { randomBase62 } from '../../src/platform/crypto/digest.ts';
import { randomBytesFromKernel } from '../../src/platform/crypto/random.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/platform/dev-postgres/dev-postgres.ts';
import { callToSuccess } from '../support/command.ts';
import { root, spawnServer, untilReady } from '../support/process.ts';
import { findProgram } from '../support/programs.ts';

const run = promisify(execFile);

const psql = findProgram('psql');

const OWNER_PASSWORD = 'owner-password';
const SERVER_PASSWORD = 'server-password';
const SUPPORT_PASSWORD = "support's password";
const MASTER_KEY = Buffer.alloc(32, 3).toString('base64');

let dataDir: string;
let postgres: EmbeddedPostgres;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'strongroom-roles-'));
  const newPassword = () => randomBase62(32, randomBytesFromKernel);
  postgres = await startEmbeddedPostgres({ dataDir, newPassword, log: () => undefined });
});

afterAll(async () => {
  await postgres.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const query = async (database: string, sql: string, user = 'postgres', password = postgres.address.password) => {
  const client = new Client({ ...postgres.address, user, password, database });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
};

/** Runs the printed script, with passwords for some of the roles. */
const runScript = async (database: string, passwords: Record<string, string> = { OWNER_PASSWORD, SERVER_PASSWORD }) => {
  const { host, port, password } = postgres.address;
  const script = join(dataDir, 'roles.sql');
  writeFileSync(script, await cli(['db', 'roles', '--print-sql'], {}));
  const args = ['-X', '-h', host, '-p', String(port), '-U', 'postgres', '-d', database, '-f', script];
  return run(psql as string, args, { env: { PATH: process.env['PATH'], PGPASSWORD: password, ...passwords } });
};

const environmentOf = (user: string, password: string, database: string) => ({
  MASTER_KEY,
  DATABASE_URL: `postgresql://${user}:${password}@${postgres.address.host}:${postgres.address.port}/${database}`,
});

const cli = async (args: string[], environment: Record<string, string>) =>
  (await callToSuccess(args, { env: environment, cwd: dataDir })).stdout;

/** Serves from the database as its server role: writes, reads and deletes a token, and reads the log. */
const serve = async (database: string): Promise<void> => {
  const environment = environmentOf('strongroom_server', SERVER_PASSWORD, database);
  const own = mkdtempSync(join(tmpdir(), 'strongroom-roles-server-'));
  const server = await spawnServer(own, { ...environment, MIGRATE_ON_START: 'false' });
  try {
    await untilReady(server);
    const made = JSON.parse(await cli(['tenants', 'create', '--name', 'Tenant', '--json'], environment));
    const request = (method: string, path: string, body?: string) =>
      fetch(server.base_url + path, {
        method,
        headers: { 'svc-api-key': made.api_key, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      });
    const created = await request('POST', '/tokens', '{"type":"token","data":"x"}');
    expect(created.status).toBe(201);
    const { id } = (await created.json()) as { id: string };
    expect((await request('GET', `/tokens/${id}`)).status).toBe(200);
    expect((await request('DELETE', `/tokens/${id}`)).status).toBe(204);
    expect((await request('GET', '/logs')).status).toBe(200);
    const doctor = await cli(['doctor'], environment);
    expect(doctor).toContain('✔ database role: "strongroom_server" can append to the audit log, and not change it');
    expect(server.output()).not.toContain('"level":"error"');
    expect(server.output()).not.toContain('the database does not tell its timeline');
  } finally {
    server.child.kill('SIGTERM');
    await server.exited;
    rmSync(own, { recursive: true, force: true });
  }
};

/** Neither role changes or removes rows of the log. */
const expectLogClosed = async (database: string): Promise<void> => {
  const roles = [
    ['strongroom_owner', OWNER_PASSWORD],
    ['strongroom_server', SERVER_PASSWORD],
  ] as const;
  for (const [user, password] of roles)
    for (const sql of ["UPDATE audit_log SET message = ''", 'DELETE FROM audit_log', 'TRUNCATE audit_log'])
      await expect(query(database, sql, user, password)).rejects.toThrow('permission denied');
  for (const sql of ['CREATE TABLE probe ()', "SELECT make_log_partition('probe', NULL, NULL)"])
    await expect(query(database, sql, 'strongroom_server', SERVER_PASSWORD)).rejects.toThrow('permission denied');
};

/** The same holds for each partition, of which the server may not even read one alone; but it may have the next ones made. */
const expectPartitionsClosed = async (database: string): Promise<void> => {
  const asServer = (sql: string) => query(database, sql, 'strongroom_server', SERVER_PASSWORD);
  const partitions = () => asServer('SELECT name FROM log_partitions()');
  // As if the next month had come: the last partition becomes one of all times to come again.
  await query(
    database,
    `SET ROLE strongroom_owner; DO $$ DECLARE p record; BEGIN
       FOR p IN SELECT name FROM log_partitions() WHERE from_id IS NOT NULL LOOP EXECUTE 'DROP TABLE ' || p.name; END LOOP;
       PERFORM make_log_partition('audit_log_from_now', to_id, NULL) FROM log_partitions();
     END $$`,
  );
  expect(await asServer('SELECT add_log_partitions() AS made')).toEqual([{ made: expect.any(Number) }]);
  expect(await asServer('SELECT add_log_partitions() AS made')).toEqual([{ made: 0 }]);
  expect((await partitions()).length).toBeGreaterThan(2);
  for (const { name } of await partitions()) {
    for (const sql of [`UPDATE ${name} SET message = ''`, `DELETE FROM ${name}`, `TRUNCATE ${name}`])
      for (const [user, password] of [
        ['strongroom_owner', OWNER_PASSWORD],
        ['strongroom_server', SERVER_PASSWORD],
      ] as const)
        await expect(query(database, sql, user, password), sql).rejects.toThrow('permission denied');
    for (const sql of [`SELECT FROM ${name}`, `INSERT INTO ${name} DEFAULT VALUES`])
      await expect(asServer(sql), sql).rejects.toThrow('permission denied');
  }
};

test.skipIf(psql === undefined)('a role whose password is not set, or empty, is not made', async () => {
  await query('postgres', 'CREATE DATABASE partly TEMPLATE template0');
  await runScript('partly', { OWNER_PASSWORD, SUPPORT_PASSWORD: '' });
  const roles = await query('partly', "SELECT rolname FROM pg_roles WHERE rolname LIKE 'strongroom\\_%'");
  expect(roles).toEqual([{ rolname: 'strongroom_owner' }]);
});

test.skipIf(psql === undefined)(
  'a new database is migrated by its owner, and served by a role that is not',
  async () => {
    await query('postgres', 'CREATE DATABASE fresh TEMPLATE template0');
    await runScript('fresh');
    await cli(['migrate'], environmentOf('strongroom_owner', OWNER_PASSWORD, 'fresh'));
    await serve('fresh');
    await expectLogClosed('fresh');
    await expectPartitionsClosed('fresh');
  },
);

test.skipIf(psql === undefined)('a database that one role made is handed over, twice without harm', async () => {
  await query('postgres', 'CREATE DATABASE handed OWNER strongroom TEMPLATE template0');
  const { user, password } = postgres.address;
  await cli(['bootstrap', '--tenant-name', 'First'], environmentOf(user, password, 'handed'));
  await runScript('handed');
  await runScript('handed');
  expect(await cli(['migrate'], environmentOf('strongroom_owner', OWNER_PASSWORD, 'handed'))).toContain('Up to date');
  await serve('handed');
  await expectLogClosed('handed');
  await expectPartitionsClosed('handed');
});

test('the command prints the file that compose mounts', async () => {
  expect(await cli(['db', 'roles', '--print-sql'], {})).toBe(
    readFileSync(join(root, 'deploy/postgres/roles.sql'), 'utf8'),
  );
});

test.skipIf(psql === undefined)('support reads what holds no secret, and no other table', async () => {
  await query('postgres', 'CREATE DATABASE supported TEMPLATE template0');
  await runScript('supported');
  await cli(['migrate'], environmentOf('strongroom_owner', OWNER_PASSWORD, 'supported'));
  // Alone, the roles that are there keep their passwords and rights.
  await runScript('supported', { SUPPORT_PASSWORD });
  await cli(['bootstrap', '--tenant-name', 'First'], environmentOf('strongroom_server', SERVER_PASSWORD, 'supported'));

  const asSupport = (sql: string) => query('supported', sql, 'strongroom_support', SUPPORT_PASSWORD);
  const tables = await query(
    'supported',
    `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace ORDER BY relname`,
  );
  const readable: string[] = [];
  for (const { relname } of tables)
    await asSupport(`SELECT * FROM ${relname} LIMIT 1`).then(
      () => readable.push(String(relname)),
      (error: Error) => expect(error.message).toContain('permission denied'),
    );
  expect(readable).toEqual([
    '_prisma_migrations',
    'applications',
    'audit_log',
    'deleted_tenants',
    'official_formulas',
    'tenants',
  ]);
  expect((await asSupport('SELECT operation FROM audit_log')).length).toBeGreaterThan(0);
  // The MAC of a row is no secret: it opens nothing.
  const sealed = await query(
    'supported',
    `SELECT DISTINCT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid WHERE atttypid = 'bytea'::regtype AND attname <> 'mac' AND relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')`,
  );
  expect(sealed.map(({ relname }) => relname)).toContain('tenant_keys');
  for (const { relname } of sealed) expect(readable).not.toContain(relname);

  const writes = [
    "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'x')",
    "UPDATE applications SET permissions = '{}'",
    'DELETE FROM audit_log',
    'TRUNCATE tenants',
    'CREATE TABLE probe ()',
  ];
  for (const sql of writes) await expect(asSupport(sql), sql).rejects.toThrow('permission denied');
});
