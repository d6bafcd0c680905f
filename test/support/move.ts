// A running server, a directory of files, and commands beside it, for tests that move tokens in and out.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { cardNumber } from './card-numbers.ts';
import { callCommand, type CommandResult } from './command.ts';
import { type ServerProcess, sourceEnvironment, spawnServer, untilReady } from './process.ts';
import { createDataDir } from './database.ts';

/** Starts a server for the tests of a file, and makes a directory for each test. */
export const createMove = () => {
  let dataDir = '';
  let directory = '';
  let server: ServerProcess;
  let made = 0;
  beforeAll(async () => {
    dataDir = createDataDir('move');
    server = await spawnServer(dataDir);
    await untilReady(server);
  });
  afterAll(async () => {
    server.child.kill();
    await server.exited;
    rmSync(dataDir, { recursive: true, force: true });
  });
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'strongroom-move-files-'));
    return () => rmSync(directory, { recursive: true, force: true });
  });
  const path = (name: string): string => join(directory, name);
  const read = (name: string): string => readFileSync(path(name), 'utf8');
  const linesOf = (name: string): string[] => read(name).trimEnd().split('\n').filter(Boolean);
  const newNumber = (): string => cardNumber((made += 1));

  const request = async (method: string, url: string, json?: unknown) => {
    const response = await fetch(`${server.base_url}${url}`, {
      method,
      headers: {
        'svc-api-key': server.credentials().api_key,
        ...(json !== undefined && { 'content-type': 'application/json' }),
      },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    });
    const text = await response.text();
    // oxlint-disable-next-line typescript/no-explicit-any -- compared with what a test expects
    return { status: response.status, text, body: JSON.parse(text) as any };
  };

  return {
    path,
    read,
    linesOf,
    /** A card number that no other call returns. */
    newNumber,
    tenantId: (): string => server.credentials().tenant_id,
    faultsOf: (name: string): unknown[] => linesOf(name).map((line) => JSON.parse(line)),

    command: (...args: string[]): Promise<CommandResult> => callCommand(args, { env: { DATA_DIR: dataDir } }),

    /** What a process of a command gets that a test spawns itself. */
    environment: () => ({ ...sourceEnvironment, DATA_DIR: dataDir }),
    /** The same where files have a limit of size: without the cache of code, which is larger. */
    smallFiles: () => ({ PATH: sourceEnvironment.PATH, DATA_DIR: dataDir }),

    get: (url: string) => request('GET', url),
    request,

    /** A CSV file of cards that no other test uses. */
    cards: (count: number) => {
      const rows = Array.from({ length: count }, () => {
        const number = newNumber();
        return { id: `src_${made}`, number };
      });
      const lines = rows.map(({ id, number }) => `${id},${number},9,2031,"a, b"\n`);
      return { rows, csv: `card_id,pan,month,year,note\n${lines.join('')}` };
    },

    /** Writes a key file of age. */
    makeKey: async (name: string) => {
      const identity = await generateX25519Identity();
      writeFileSync(path(name), `# created by a test\n${identity}\n`);
      return { identity, recipient: await identityToRecipient(identity) };
    },
  };
};
