// Starts executors by a small process of its own, because a fork in the server would block its event loop.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CommandLine, WRAPPER_ENVIRONMENT } from './wall.ts';

/** To the process. `go`: the server has the socket. `ready`: the executor has started. */
export type Order =
  | { kind: 'start'; id: number; command: string; args: string[] }
  | { kind: 'go' | 'ready' | 'kill'; id: number };

/** `words`: standard error until the executor was ready. */
export type Ending = { code: number | null; signal: NodeJS.Signals | null; words: string };

/** From the process. `started` comes with the socket. */
export type Report = { kind: 'started'; id: number; pid: number } | ({ kind: 'ended'; id: number } & Ending);

export type Spawned = {
  /** Of the outermost process of the command. */
  pid: number;
  /** The other end of the command's descriptor 3. */
  socket: Socket;
  /** Resolves when the outermost process has ended. */
  ended: Promise<Ending>;
  ready(): void;
  kill(): void;
};

export type Spawner = {
  /** @returns how it ended, where it could not be started. */
  start(command: CommandLine): Promise<Spawned | Ending>;
  /** Ends the process, and with it what it has started. */
  close(): Promise<void>;
};

type Place = { begun(spawned: { pid: number; socket: Socket }): void; end(ending: Ending): void };

const here = fileURLToPath(import.meta.url);
const processPath = `${dirname(here)}/spawner-process${extname(here)}`;

/** It holds a few small objects. */
const nodeOptions = ['--max-semi-space-size=1', '--v8-pool-size=1'];

export const createSpawner = (): Spawner => {
  const places = new Map<number, Place>();
  let nextId = 1;
  let child: ChildProcess | undefined;

  const send = (order: Order): void => {
    // An error means that the process has ended, which ends all places.
    if (child?.connected) child.send(order, () => undefined);
  };

  const receive = (report: Report, socket: Socket | undefined): void => {
    const place = places.get(report.id);
    if (report.kind === 'ended') {
      places.delete(report.id);
      place?.end(report);
    } else if (socket) {
      place?.begun({ pid: report.pid, socket });
      send({ kind: 'go', id: report.id });
    }
  };

  const open = (): void => {
    const opened = spawn(process.execPath, [...nodeOptions, processPath], {
      cwd: '/',
      env: WRAPPER_ENVIRONMENT,
      // A session of its own: what a terminal sends to the server's does not reach it.
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child = opened;
    opened.on('message', (report, socket) => receive(report as Report, socket as Socket | undefined));
    const end = (): void => {
      if (child !== opened) return;
      child = undefined;
      for (const place of places.values()) place.end({ code: null, signal: null, words: 'the spawner has ended' });
      places.clear();
    };
    opened.once('error', end);
    opened.once('exit', end);
  };

  return {
    start: ({ command, args }) =>
      new Promise((resolve) => {
        if (!child) open();
        const id = nextId;
        nextId += 1;
        const { promise: ended, resolve: end } = Promise.withResolvers<Ending>();
        places.set(id, {
          begun: (spawned) =>
            resolve({
              ...spawned,
              ended,
              ready: () => send({ kind: 'ready', id }),
              kill: () => send({ kind: 'kill', id }),
            }),
          end: (ending) => {
            end(ending);
            resolve(ending);
          },
        });
        send({ kind: 'start', id, command, args });
      }),
    close: async () => {
      const closing = child;
      if (!closing) return;
      const exited = once(closing, 'exit');
      if (closing.connected) closing.disconnect();
      await exited;
    },
  };
};
