// The executor process: runs the code of one application of one tenant, without keys or network, and speaks frames over one descriptor.
// The supervisor enforces the hard limits and trusts nothing from here.
import { readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { getPriority, setPriority } from 'node:os';
import { closeSlot, openSlot, prepareSlot } from './isolate-slots.ts';
import { type Loaded, type Run, type RunLimits, type RunOutlet, sharedSlot, startRun } from './runs.ts';
import { createFrameReader, encodeFrame, type Frame, frameKinds } from '../protocol/frames.ts';

/** The inherited end of the socketpair. */
const SOCKET_DESCRIPTOR = 3;
/** The user `nobody`: of an executor that starts as root and cannot be a user of its own. */
const NOBODY = 65_534;

const [memoryMb, ownUser] = process.argv.slice(2, 4).map(Number);
/** A file that the wall must hide; undefined without a wall. */
const [forbiddenPath] = process.argv.slice(4);

const runs = new Map<number, Run>();
const loaded = new Map<string, Loaded>();

const socket = new Socket({ fd: SOCKET_DESCRIPTOR });
const send = (frame: Buffer): void => void socket.write(frame);

const outletOf = (id: number): RunOutlet => ({
  call: (head, json) => send(encodeFrame(frameKinds.CALL, id, head, json)),
  done: (head, body) => send(encodeFrame(frameKinds.DONE, id, head, body)),
});

type Head = {
  key: string;
  memory_mb: number;
  limits: RunLimits;
  isolation: 'context' | 'isolate';
  call: number;
  ok: boolean;
};

const begin = (id: number, kind: 'invoke' | 'check', { key, limits, isolation }: Head, body: string): void => {
  const entry = loaded.get(key);
  const open = async () => {
    if (kind === 'check') return openSlot(body, limits.memory_mb, true);
    if (!entry) throw new Error('the code was not loaded');
    return isolation === 'isolate' ? openSlot(entry.code, limits.memory_mb, true) : sharedSlot(entry);
  };
  const work = { kind, limits, input: kind === 'check' ? '' : body };
  runs.set(
    id,
    startRun(work, open, outletOf(id), () => runs.delete(id)),
  );
};

const unload = (key: string): void => {
  const slot = loaded.get(key)?.slot;
  loaded.delete(key);
  // A slot that could not be opened need not be closed.
  slot?.then(closeSlot, () => undefined);
};

const receive = ({ kind, id, head, body: bytes }: Frame): void => {
  const body = bytes.toString();
  const fields = JSON.parse(head) as Head;
  switch (kind) {
    case frameKinds.LOAD:
      loaded.set(fields.key, { code: body, memoryMb: fields.memory_mb, slot: undefined });
      return;
    case frameKinds.UNLOAD:
      return unload(fields.key);
    case frameKinds.INVOKE:
      return begin(id, 'invoke', fields, body);
    case frameKinds.CHECK:
      return begin(id, 'check', fields, body);
    case frameKinds.SETTLE:
      return runs.get(id)?.settle(fields.call, fields.ok, body);
    case frameKinds.CANCEL:
      return runs.get(id)?.cancel();
    default:
  }
};

/** Root is needed to read the files, and for nothing else. Another executor cannot signal a user of its own. */
const giveUpRoot = (): void => {
  if (process.getuid?.() !== 0) return;
  for (const user of [ownUser ?? NOBODY, NOBODY]) {
    try {
      process.setgroups?.([]);
      process.setgid?.(user);
      process.setuid?.(user);
      return;
    } catch {
      // The user does not exist here: in a user namespace, root has no other user to become.
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

/** Tries what the wall forbids, before a tenant's code is here. Without the filter, a process may set its own priority. */
const testWall = (path: string): void => {
  if (!fails(() => readFileSync(path))) throw new Error('the wall does not hold: a file of the server can be read');
  if (!fails(() => setPriority(getPriority()))) throw new Error('the wall does not hold: no filter of system calls');
};

/** The server is gone or closes: no run need be finished. */
socket.on('close', () => process.exit(0));
socket.on('error', () => process.exit(0));

// The test comes before root is given up: without a wall, root may read every file.
if (forbiddenPath !== undefined) testWall(forbiddenPath);
giveUpRoot();
await prepareSlot(memoryMb as number);
const reader = createFrameReader(receive, () => process.exit(71));
socket.on('data', (chunk) => reader.push(chunk));
send(encodeFrame(frameKinds.READY, 0, {}));
