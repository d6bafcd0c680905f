// Every command of the command line ends by itself, whatever fails: each runs its own first example.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commandExamples } from '../../src/cli/command-table.ts';
import { freePort, root, sourceEnvironment } from '../support/process.ts';

let directory: string;
let silent: Server;
const sockets = new Set<Socket>();
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'strongroom-commands-'));
  silent = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  silent.close();
  rmSync(directory, { recursive: true, force: true });
});

const databaseAt = (port: number): string => `postgresql://vault:password@127.0.0.1:${port}/vault`;

/** @returns how the command ended: its exit code, or the signal that ended it. */
const run = (example: string, environment: Record<string, string>): Promise<{ end: number | string; said: string }> =>
  new Promise((resolve) => {
    // A shell reads the examples as an operator's does: some have pipes and quotes.
    const child = spawn(
      'bash',
      ['-c', `set -o pipefail; strongroom() { "$NODE" "$CLI" "$@"; }; strongroom ${example}`],
      {
        cwd: directory,
        env: {
          ...sourceEnvironment,
          NODE: process.execPath,
          CLI: join(root, 'src/cli/main.ts'),
          MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
          ...environment,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let said = '';
    child.stdout.on('data', (chunk) => (said += chunk));
    child.stderr.on('data', (chunk) => (said += chunk));
    child.once('close', (code, signal) => resolve({ end: code ?? String(signal), said }));
  });

/** `start` becomes a server. */
const examples = Object.entries(commandExamples).filter(([name]) => name !== 'start');

/** What the table of commands documents: done, failed, or a command line that never works. */
const EXIT_CODES = [0, 1, 2];

describe.concurrent.each(examples)('%s', (_, example) => {
  test('ends where the database refuses connections', async () => {
    const { end, said } = await run(example, { DATABASE_URL: databaseAt(await freePort()) });
    expect(EXIT_CODES, said).toContain(end);
  });

  test('ends where the database accepts a connection and never answers', async () => {
    const { port } = silent.address() as AddressInfo;
    const { end, said } = await run(example, { DATABASE_URL: databaseAt(port) });
    expect(EXIT_CODES, said).toContain(end);
  });
});
