// What a statement found is there before its commit, and goes nowhere before it. Here a commit waits for a lock that the
// test holds.
import { Client, Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createStatements, type Statements } from '../src/db/statements.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';

const LOCK = 4711;

let database: TestDatabase;
let pool: Pool;
let statements: Statements;
let holder: Client;

beforeAll(async () => {
  database = await createDatabase();
  pool = new Pool(database.address);
  // A connection that a test cuts.
  pool.on('error', () => undefined);
  statements = createStatements(pool, 4);
  holder = new Client(database.address);
  await holder.connect();
  await holder.query(`
    CREATE TABLE deeds (id int);
    CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock(${LOCK}); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER wait_for_lock AFTER INSERT ON deeds INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION wait_for_lock();`);
});

afterAll(async () => {
  await holder.end();
  await pool.end();
  await database.drop();
});

const INSERT = 'WITH i AS (INSERT INTO deeds SELECT generate_series(1, $1::int) RETURNING id) SELECT * FROM i';

test('rows come before the commit, of a statement that is new to its connection and of one that it knows', async () => {
  for (let turn = 0; turn < 3; turn += 1) {
    await holder.query('SELECT pg_advisory_lock($1)', [LOCK]);
    const { rows, committed } = await statements.queryEarly('insert-deeds', INSERT, [3]);
    expect(rows).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
    const { rows: seen } = await holder.query('SELECT count(*)::int AS count FROM deeds');
    expect(seen).toEqual([{ count: turn * 3 }]);
    await holder.query('SELECT pg_advisory_unlock($1)', [LOCK]);
    await committed;
    const { rows: after } = await holder.query('SELECT count(*)::int AS count FROM deeds');
    expect(after).toEqual([{ count: turn * 3 + 3 }]);
  }
});

test('a statement without rows gives none, early too', async () => {
  await holder.query('SELECT pg_advisory_lock($1)', [LOCK]);
  const { rows, committed } = await statements.queryEarly('insert-quietly', 'INSERT INTO deeds VALUES ($1)', [1]);
  expect(rows).toEqual([]);
  await holder.query('SELECT pg_advisory_unlock($1)', [LOCK]);
  await committed;
});

test('what fails before its rows rejects, and the next statement is served', async () => {
  await expect(statements.queryEarly('no-such', 'INSERT INTO nothing VALUES ($1)', [1])).rejects.toMatchObject({
    code: 'unavailable',
  });
  await expect(statements.queryEarly('bad-value', INSERT, ['many'])).rejects.toMatchObject({ code: 'internal' });
  expect((await statements.queryEarly('again', INSERT, [1])).rows).toEqual([{ id: 1 }]);
});

test('a commit that fails after the rows rejects `committed`, and the next statement is served', async () => {
  await holder.query('CREATE TABLE parents (id int PRIMARY KEY)');
  await holder.query('CREATE TABLE children (parent int REFERENCES parents INITIALLY DEFERRED)');
  const { rows, committed } = await statements.queryEarly(
    'insert-orphan',
    'WITH i AS (INSERT INTO children VALUES ($1) RETURNING parent) SELECT * FROM i',
    [1],
  );
  expect(rows).toEqual([{ parent: 1 }]);
  await expect(committed).rejects.toMatchObject({ name: 'AppError' });
  expect(await statements.query('count-children', 'SELECT count(*)::int AS count FROM children', [])).toEqual([
    { count: 0 },
  ]);
});

test('a connection that ends between rows and commit rejects `committed`', async () => {
  await holder.query('SELECT pg_advisory_lock($1)', [LOCK]);
  const { rows, committed } = await statements.queryEarly('insert-cut', INSERT, [1]);
  expect(rows).toEqual([{ id: 1 }]);
  await holder.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'active' AND query LIKE 'WITH i AS (INSERT INTO deeds%'`,
  );
  await expect(committed).rejects.toMatchObject({ code: 'unavailable' });
  await holder.query('SELECT pg_advisory_unlock($1)', [LOCK]);
});
