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
  /** Id of the outermost process of the command. */
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

/** Time from the order until the executor is ready, which usually takes a tenth of a second. */
const START_MS_MAX = 20_000;
/** A killed process ends within milliseconds. After this time without a report the spawner counts as stuck. */
const KILL_MS_MAX = 10_000;

type Place = {
  begun(spawned: { pid: number; socket: Socket }): void;
  end(ending: Ending): void;
  /** Kills what was started. @param reason for the message of a failed start. */
  kill(reason?: string): void;
};

const here = fileURLToPath(import.meta.url);
const processPath = `${dirname(here)}/spawner-process${extname(here)}`;

/** It holds a few small objects. */
const nodeOptions = ['--max-semi-space-size=1', '--v8-pool-size=1'];

/** @param limits tests set shorter ones. */
export const createSpawner = (limits = { startMs: START_MS_MAX, killMs: KILL_MS_MAX }): Spawner => {
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
    } else {
      place?.kill('its socket was lost');
    }
  };

  /** Ends all places: the process has ended, or is stuck and is killed. The next start starts another one. */
  const end = (ended: ChildProcess, words: string): void => {
    if (child !== ended) return;
    child = undefined;
    ended.kill('SIGKILL');
    for (const place of places.values()) place.end({ code: null, signal: null, words });
    places.clear();
  };

  const open = (): ChildProcess => {
    const opened = spawn(process.execPath, [...nodeOptions, processPath], {
      cwd: '/',
      env: WRAPPER_ENVIRONMENT,
      // A session of its own: what a terminal sends to the server's does not reach it.
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child = opened;
    opened.on('message', (report, socket) => receive(report as Report, socket as Socket | undefined));
    const ended = (): void => end(opened, 'the spawner has ended');
    opened.once('error', ended);
    opened.once('exit', ended);
    return opened;
  };

  return {
    start: ({ command, args }) =>
      new Promise((resolve) => {
        const opened = child ?? open();
        const id = nextId;
        nextId += 1;
        const { promise: ended, resolve: resolveEnded } = Promise.withResolvers<Ending>();
        const stuck = (): void => end(opened, 'the spawner does not answer');
        const { startMs, killMs } = limits;
        const late = `it is not ready after ${startMs} ms`;
        let hasBegun = false;
        let reason = '';
        let timer = setTimeout(() => (hasBegun ? kill(late) : stuck()), startMs);
        let isKilled = false;
        const kill = (why = ''): void => {
          if (isKilled || !places.has(id)) return;
          isKilled = true;
          reason = why;
          clearTimeout(timer);
          timer = setTimeout(stuck, killMs);
          send({ kind: 'kill', id });
        };
        places.set(id, {
          begun: (spawned) => {
            hasBegun = true;
            resolve({
              ...spawned,
              ended,
              ready: () => {
                if (!isKilled) clearTimeout(timer);
                send({ kind: 'ready', id });
              },
              kill: () => kill(),
            });
          },
          end: (ending) => {
            clearTimeout(timer);
            const reported = { ...ending, words: reason || ending.words };
            resolveEnded(reported);
            resolve(reported);
          },
          kill,
        });
        send({ kind: 'start', id, command, args });
      }),
    close: async () => {
      const closing = child;
      if (!closing) return;
      const exited = once(closing, 'exit');
      if (closing.connected) closing.disconnect();
      const timer = setTimeout(() => closing.kill('SIGKILL'), limits.killMs);
      await exited;
      clearTimeout(timer);
    },
  };
};
