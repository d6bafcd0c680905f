// The process that foreign code runs in: one tenant's, for life. It holds no key, no address and no right, and speaks frames
// over one descriptor. What it enforces is for order; the hard limits are the supervisor's, who trusts nothing from here.
import { readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { getPriority, setPriority } from 'node:os';
import { closeRoom, openRoom, prepareRoom } from './executor-rooms.ts';
import { type Loaded, type Run, type RunLimits, type RunOutlet, sharedRoom, startRun } from './executor-runs.ts';
import { encodeFrame, type Frame, frameKinds, readFrames } from './frames.ts';

/** The inherited end of the socketpair. */
const SOCKET_DESCRIPTOR = 3;
/** Nobody: what a root executor becomes where it cannot be a user of its own. */
const NOBODY = 65_534;

const [memoryMb, ownUser] = process.argv.slice(2, 4).map(Number);
/** A file that must not be there to read; undefined where there is no wall. */
const [forbiddenPath] = process.argv.slice(4);

const runs = new Map<number, Run>();
const loaded = new Map<string, Loaded>();

const socket = new Socket({ fd: SOCKET_DESCRIPTOR });
const send = (frame: Buffer): void => void socket.write(frame);

const outletOf = (id: number): RunOutlet => ({
  call: (head, json) => send(encodeFrame(frameKinds.CALL, id, head, json)),
  done: (head, body) => send(encodeFrame(frameKinds.DONE, id, head, body)),
});

type Words = {
  key: string;
  memory_mb: number;
  limits: RunLimits;
  isolation: 'context' | 'isolate';
  call: number;
  ok: boolean;
};

const begin = (id: number, kind: 'invoke' | 'check', { key, limits, isolation }: Words, body: string): void => {
  const entry = loaded.get(key);
  const open = async () => {
    if (kind === 'check') return openRoom(body, limits.memory_mb, true);
    if (!entry) throw new Error('the code was not loaded');
    return isolation === 'isolate' ? openRoom(entry.code, limits.memory_mb, true) : sharedRoom(entry);
  };
  const work = { kind, limits, input: kind === 'check' ? '' : body };
  runs.set(
    id,
    startRun(work, open, outletOf(id), () => runs.delete(id)),
  );
};

const unload = (key: string): void => {
  const room = loaded.get(key)?.room;
  loaded.delete(key);
  // What could not be opened need not be closed.
  room?.then(closeRoom, () => undefined);
};

const receive = ({ kind, id, head, body }: Frame): void => {
  const words = JSON.parse(head) as Words;
  switch (kind) {
    case frameKinds.LOAD:
      loaded.set(words.key, { code: body, memoryMb: words.memory_mb, room: undefined });
      return;
    case frameKinds.UNLOAD:
      return unload(words.key);
    case frameKinds.INVOKE:
      return begin(id, 'invoke', words, body);
    case frameKinds.CHECK:
      return begin(id, 'check', words, body);
    case frameKinds.SETTLE:
      return runs.get(id)?.settle(words.call, words.ok, body);
    default:
  }
};

/** Root is needed to read the files, and for nothing else. A user of its own is nobody whom another executor could reach. */
const giveUpRoot = (): void => {
  if (process.getuid?.() !== 0) return;
  for (const user of [ownUser ?? NOBODY, NOBODY]) {
    try {
      process.setgroups?.([]);
      process.setgid?.(user);
      process.setuid?.(user);
      return;
    } catch {
      // Not a user that can be here. In a user namespace this root is nobody's root, and there is nobody else to be.
    }
  }
};

const fails = (work: () => unknown): boolean => {
  try {
    work();
    return false;
  } catch {
    return true;
  }
};

/** Tries what the wall forbids, before anything foreign is here. Without the filter, a process may set the priority that it has. */
const testWall = (path: string): void => {
  if (!fails(() => readFileSync(path))) throw new Error('the wall does not hold: a file of the server can be read');
  if (!fails(() => setPriority(getPriority()))) throw new Error('the wall does not hold: no filter of system calls');
};

/** The server is gone, or wants nothing more: nothing here is worth finishing. */
socket.on('close', () => process.exit(0));
socket.on('error', () => process.exit(0));

// As root, whom no mode of a file keeps out.
if (forbiddenPath !== undefined) testWall(forbiddenPath);
giveUpRoot();
await prepareRoom(memoryMb as number);
readFrames(socket, receive, () => process.exit(71));
send(encodeFrame(frameKinds.READY, 0, {}));
