// Reads what an executor sends no faster than its tenant may use the event loop: in parts, with rests between them.
import type { Socket } from 'node:net';
import type { FrameReader } from '../protocol/frames.ts';

/** So many bytes are read between two looks at the other sockets: libuv alone takes 2 MB of each. */
export const READ_BYTES_OF_TURN = 262_144;

/**
 * What a megabyte of large frames costs the event loop: 0.8 to 1 ms of CPU time for the reads, of which callbacks see a third, and
 * its part of the collections of garbage that follow. By bytes, so that it is the same on each machine.
 */
const MS_PER_BYTE = 2 / 1024 / 1024;

/** A read takes as long as so many bytes, however few it brings. */
const READ_BYTES_LEAST = 4_096;

/** The account is charged for so many bytes at once, as a charge costs some microseconds. */
const CHARGED_BYTES = 65_536;

/** Who pays for what an executor sends. */
export type Pace = {
  /** Called before something is read. */
  begin(): void;
  /** Called with the time of the event loop that parts of large frames take. */
  charge(usedMs: number): void;
  /** How long nothing more is read, in ms. */
  restMs(): number;
};

/** Pace of an executor that has no tenant. */
export const unpaid: Pace = { begin: () => undefined, charge: () => undefined, restMs: () => 0 };

/** Reads until the socket ends. While it is not read, the executor's own writes wait. */
export const readPaced = (socket: Socket, reader: FrameReader, pace: Pace): void => {
  let bytes = 0;
  let unpaidBytes = 0;

  const pay = (): void => {
    pace.charge(unpaidBytes * MS_PER_BYTE);
    unpaidBytes = 0;
  };
  const resume = (): void => void socket.resume();
  const pause = (restMs: number): void => {
    bytes = 0;
    socket.pause();
    if (restMs > 0) setTimeout(resume, restMs);
    else setImmediate(resume);
  };

  socket.on('data', (chunk: Buffer) => {
    pace.begin();
    if (reader.push(chunk)) unpaidBytes += Math.max(READ_BYTES_LEAST, chunk.length);
    bytes += chunk.length;
    const isEnough = bytes >= READ_BYTES_OF_TURN;
    if (unpaidBytes >= CHARGED_BYTES) pay();
    const restMs = pace.restMs();
    if (isEnough || restMs > 0) pause(restMs);
  });
};
