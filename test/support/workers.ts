// Servers with several workers: their lines, and requests that reach each worker.
import { setTimeout as pause } from 'node:timers/promises';
import { test as base } from './place.ts';
import { type ServerProcess, untilReady } from './process.ts';

export const ROOT_KEY = Buffer.alloc(32, 7);
export const MASTER_KEY = ROOT_KEY.toString('base64');
export const WAIT = { timeout: 30_000 };
/** New connections that reach every worker: the supervisor gives them to workers in turn. */
export const EACH = [0, 1, 2, 3, 4, 5];

export const test = base.extend<{
  /** A server with two workers, where nothing else is asked for. */
  startWorkers(environment?: Record<string, string>, command?: [string, ...string[]]): Promise<ServerProcess>;
}>({
  startWorkers: async ({ start }, use) => {
    await use((environment, command) => start({ WORKERS: '2', ...environment }, command));
  },
});

/** The log, as far as its lines have arrived. What is written beside it is no JSON. */
export const linesOf = (server: ServerProcess): any[] =>
  server
    .output()
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

/** Until every worker serves. */
export const untilListening = async (server: ServerProcess): Promise<void> => {
  await untilReady(server);
  while (!server.output().includes('"listening"')) await pause(20);
};

/** A request over a connection of its own. */
export const ask = (server: ServerProcess, api_key: string, path: string, json?: unknown, headers = {}) =>
  fetch(server.base_url + path, {
    method: json === undefined ? 'GET' : 'POST',
    headers: { 'svc-api-key': api_key, 'content-type': 'application/json', connection: 'close', ...headers },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  });

export const jsonOf = (answer: Response): Promise<any> => answer.json();
