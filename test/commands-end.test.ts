// Every command of the command line ends by itself, whatever fails, and closes what it opened: each runs its own first example.
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { commandExamples } from '../src/cli/command-table.ts';
import { WRAPPER_ENVIRONMENT } from '../src/platform/sandbox/host/wall.ts';
import { callCommand, type CommandResult } from './support/command.ts';
import { freePort } from './support/process.ts';
import { startServer, TEST_ROOT_KEY } from './support/server.ts';

/** What the table of commands documents: done, failed, or a command line that never works. */
const EXIT_CODES = [0, 1, 2];

/** Closed connections and ended processes are noted in a later tick of the event loop. */
const RELEASE_MS = 10_000;

/** The words of an example, without the shell's pipe or redirection after it. */
const wordsOf = (example: string): string[] =>
  [...(example.split(/ [|>] /)[0] ?? '').matchAll(/'([^']*)'|"([^"]*)"|\S+/g)].map(
    ([word, quoted, doubled]) => quoted ?? doubled ?? word,
  );

/** `start` becomes a server. */
const commands = Object.entries(commandExamples).filter(([name]) => name !== 'start');

const start = process.cwd();
let directory: string;
let silent: Server;
const sockets = new Set<Socket>();
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'strongroom-commands-'));
  // The files of the examples.
  process.chdir(directory);
  silent = createServer((socket) => {
    sockets.add(socket);
    socket
      .once('close', () => sockets.delete(socket))
      .on('error', () => undefined)
      .resume();
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  process.chdir(start);
  for (const socket of sockets) socket.destroy();
  silent.close();
  rmSync(directory, { recursive: true, force: true });
});

/** What keeps this process open beside what did `before`. */
const openSince = (before: readonly string[]): string[] => {
  const rest = [...before];
  return process.getActiveResourcesInfo().filter((name) => {
    const at = rest.indexOf(name);
    if (at !== -1) rest.splice(at, 1);
    return at === -1;
  });
};

/** Runs all commands at once. @returns their results by name. */
const runAll = async (env: Record<string, string>): Promise<Map<string, CommandResult>> => {
  const results = new Map<string, CommandResult>();
  const before = process.getActiveResourcesInfo();
  for (const [name, example] of commands)
    void callCommand(wordsOf(example), { env: { MASTER_KEY: TEST_ROOT_KEY, ...env } }).then((result) =>
      results.set(name, result),
    );
  const running = () => commands.map(([name]) => name).filter((name) => !results.has(name));
  await vi.waitFor(() => expect(running()).toEqual([]), { timeout: 90_000 });
  for (const [name, { code, stderr }] of results) expect(EXIT_CODES, `${name}: ${stderr}`).toContain(code);
  // Not vi.waitFor, whose timers are resources too.
  for (const deadline = Date.now() + RELEASE_MS; openSince(before).length > 0 && Date.now() < deadline;)
    await pause(20);
  expect(openSince(before)).toEqual([]);
  return results;
};

const databaseAt = (port: number): string => `postgresql://vault:password@127.0.0.1:${port}/vault`;

test('where the database refuses connections', async () => {
  const results = await runAll({ DATABASE_URL: databaseAt(await freePort()) });
  expect(results.get('tenants list')?.code).toBe(1);
});

test('where the database accepts a connection and never answers', async () => {
  const results = await runAll({ DATABASE_URL: databaseAt((silent.address() as AddressInfo).port) });
  expect(results.get('tenants list')?.code).toBe(1);
});

test('where the sandbox does not start', async () => {
  const server = await startServer();
  const path = WRAPPER_ENVIRONMENT.PATH;
  // bubblewrap is not found here.
  WRAPPER_ENVIRONMENT.PATH = directory;
  try {
    const results = await runAll({ NODE_ENV: 'test', DATABASE_URL: server.databaseUrl, SANDBOX_JAIL: 'bwrap' });
    expect(results.get('doctor')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^✘ sandbox: .*SANDBOX_JAIL=auto/m),
    });
  } finally {
    WRAPPER_ENVIRONMENT.PATH = path;
    await server.close();
  }
});
