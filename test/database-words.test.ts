// Messages for the operator when the database refuses a connection: reason, place and fix, never the password.
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../src/platform/config/config.ts';
import { createInspection } from '../src/cli/inspection.ts';
import { selfSignedCertificateFor } from './support/certificates.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';

let database: TestDatabase;
let role: string;

const asSuperuser = async (sql: string): Promise<void> => {
  const client = new Client({ ...database.address, user: 'postgres' });
  await client.connect();
  await client.query(sql);
  await client.end();
};

beforeAll(async () => {
  database = await createDatabase();
  role = `refused_${database.address.database}`;
  await asSuperuser(`CREATE ROLE ${role} LOGIN PASSWORD 'right'`);
});

afterAll(async () => {
  await asSuperuser(`DROP OWNED BY ${role}`);
  await asSuperuser(`DROP ROLE ${role}`);
  await database.drop();
});

const refusalOf = async (databaseUrl: string): Promise<string> => {
  const inspection = createInspection({ ...loadConfig({ DATABASE_URL: databaseUrl }), logLevel: 'silent' });
  return inspection.then(
    async ({ close }) => {
      await close();
      return expect.unreachable('the database was opened');
    },
    (error: Error) => error.message,
  );
};

const urlOf = ({ password = 'right', name = database.address.database, more = '' } = {}): string =>
  `postgresql://${role}:${password}@127.0.0.1:${database.address.port}/${name}${more}`;

/** Says what every one of these must: where it was tried and as whom. */
const expectPlace = (words: string, name = database.address.database): void => {
  expect(words).toContain(`Tried: 127.0.0.1:${database.address.port}, user "${role}", database "${name}".`);
};

test('a wrong password', async () => {
  const words = await refusalOf(urlOf({ password: 'hidden-password' }));
  expect(words).toContain('it refuses the user or the password (28P01)');
  expectPlace(words);
  expect(words).not.toContain('hidden-password');
});

test('a database that is missing', async () => {
  const words = await refusalOf(urlOf({ name: 'missing' }));
  expect(words).toContain('there is no such database on the server (3D000)');
  expectPlace(words, 'missing');
});

test('a role that may not log in, has no connection left, or may not connect', async () => {
  await asSuperuser(`ALTER ROLE ${role} NOLOGIN`);
  expect(await refusalOf(urlOf())).toContain('it does not let this user in (28000)');
  await asSuperuser(`ALTER ROLE ${role} LOGIN CONNECTION LIMIT 0`);
  expect(await refusalOf(urlOf())).toContain('it has no connection left for this user (53300)');
  await asSuperuser(`ALTER ROLE ${role} CONNECTION LIMIT -1`);
  await asSuperuser(`REVOKE CONNECT ON DATABASE ${database.address.database} FROM PUBLIC`);
  expect(await refusalOf(urlOf())).toContain('the user may not connect to the database (42501)');
});

test('a server without TLS where TLS is asked for, and a file of authorities that is missing', async () => {
  expect(await refusalOf(urlOf({ more: '?sslmode=require' }))).toContain('it offers no TLS, and sslmode asks for it');
  const words = await refusalOf(urlOf({ more: '?sslmode=verify-full&sslrootcert=/nowhere/ca.pem' }));
  expect(words).toContain('a file is missing');
  expect(words).not.toContain('right@');
});

test('a host that is unknown, and a port where nothing listens', async () => {
  expect(await refusalOf('postgresql://u:p@nowhere.invalid:5432/d')).toMatch(/name of the host.*nowhere\.invalid:5432/);
  expect(await refusalOf('postgresql://u:p@127.0.0.1:9/d')).toContain('nothing listens there (ECONNREFUSED)');
});

/** Speaks PostgreSQL's protocol as far as a refusal goes: to see one that a server in order does not give. */
const withListener = async (answer: (socket: Socket) => void, work: (port: number) => Promise<void>): Promise<void> => {
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined));
    socket.once('data', () => answer(socket));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    await work((server.address() as AddressInfo).port);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
};

test('a server that is starting', async () => {
  const fields = 'SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0';
  const length = Buffer.alloc(4);
  length.writeUInt32BE(4 + fields.length);
  await withListener(
    (socket) => void socket.end(Buffer.concat([Buffer.from('E'), length, Buffer.from(fields)])),
    async (port) =>
      expect(await refusalOf(`postgresql://u:p@127.0.0.1:${port}/d`)).toContain(
        'it is starting, stopping or recovering (57P03)',
      ),
  );
});

test('a certificate of an unknown authority', async () => {
  await withListener(
    (socket) => {
      socket.write('S');
      const certificate = selfSignedCertificateFor('localhost');
      new TLSSocket(socket, { isServer: true, ...certificate }).on('error', () => undefined);
    },
    async (port) =>
      expect(await refusalOf(`postgresql://u:p@localhost:${port}/d?sslmode=verify-full`)).toMatch(
        /authority that is not trusted here .*sslrootcert/,
      ),
  );
});
