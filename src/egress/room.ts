// How many bytes of bodies may be in memory at once, of a tenant and of all. Whoever holds room never waits for more, so
// nobody waits for ever. Knows nothing of connections.
import { EgressFault } from './fault.ts';

const MEGABYTE = 1024 * 1024;

/** Most answers are this small, and as many of them as there are connections are 32 MB: they need no room. */
export const FREE_BYTES = 65_536;

export type RoomLimits = {
  answerBytesMax: number;
  answerBytesPerTenantMax: number;
  requestBytesMax: number;
  requestBytesPerTenantMax: number;
  roomWaitMs: number;
};

export const roomLimits: RoomLimits = {
  /** Beside what a server of 1 GB has in memory anyway, also while each body is there once more as text. */
  answerBytesMax: 128 * MEGABYTE,
  /** Six of the largest answers; it takes four tenants to fill all of it. */
  answerBytesPerTenantMax: 32 * MEGABYTE,
  /** They are in memory already when they are counted, so they are fewer. */
  requestBytesMax: 64 * MEGABYTE,
  requestBytesPerTenantMax: 32 * MEGABYTE,
  /** Leaves most of a request's 25 s for the answer itself. */
  roomWaitMs: 10_000,
};

/** Answers that wait; each holds FREE_BYTES and perhaps a connection. More are turned away at once. */
const WAITING_MAX = 1_000;

/** As many as a tenant has connections: one alone cannot keep the others from waiting. */
const WAITING_PER_TENANT_MAX = 128;

export type Room = {
  /** Gives back what is held beyond so many bytes. */
  shrinkTo(bytes: number): void;
  /** Gives back the rest; again it does nothing. */
  release(): void;
};

export type BodyRooms = {
  /**
   * For all that an answer may need, asked once. First come, first served, though nobody waits for a tenant that has its
   * share. @throws EgressFault BUSY, or ABORTED by the signal.
   */
  takeForAnswer(tenant_id: string, bytes: number, signal: AbortSignal | undefined): Promise<Room>;
  /** At once or not at all: what would wait is in memory meanwhile. @throws EgressFault BUSY. */
  takeForRequest(tenant_id: string, bytes: number): Room;
  /** Whoever waits is told ABORTED. */
  close(): void;
};

type Place = { tenant_id: string; bytes: number; grant(room: Room): void; leave(code: 'BUSY' | 'ABORTED'): void };

export const createBodyRooms = (changed: Partial<RoomLimits> = {}): BodyRooms => {
  const limits = { ...roomLimits, ...changed };
  const answers = createCounter(limits.answerBytesMax, limits.answerBytesPerTenantMax);
  const requests = createCounter(limits.requestBytesMax, limits.requestBytesPerTenantMax);
  const waiting = new Set<Place>();
  let isClosed = false;

  const admit = (): void => {
    const overtaken = new Set<string>();
    for (const place of waiting) {
      if (overtaken.has(place.tenant_id)) continue;
      if (!answers.fitsTenant(place.tenant_id, place.bytes)) {
        overtaken.add(place.tenant_id);
        continue;
      }
      // A large one at the head is waited for: smaller ones would pass it for ever.
      if (!answers.fitsAll(place.bytes)) return;
      waiting.delete(place);
      place.grant(answers.take(place.tenant_id, place.bytes, admit));
    }
  };

  const isCrowded = (tenant_id: string): boolean => {
    const own = [...waiting].filter((place) => place.tenant_id === tenant_id);
    return waiting.size > WAITING_MAX || own.length > WAITING_PER_TENANT_MAX;
  };

  return {
    takeForAnswer: async (tenant_id, bytes, signal) => {
      if (bytes > Math.min(limits.answerBytesMax, limits.answerBytesPerTenantMax)) throw new EgressFault('BUSY');
      if (isClosed || signal?.aborted) throw new EgressFault('ABORTED');
      const { promise, resolve, reject } = Promise.withResolvers<Room>();
      const place: Place = {
        tenant_id,
        bytes,
        grant: resolve,
        leave: (code) => {
          // Those behind may fit where this one did not.
          if (waiting.delete(place)) admit();
          reject(new EgressFault(code));
        },
      };
      const abort = () => place.leave('ABORTED');
      const timer = setTimeout(() => place.leave('BUSY'), limits.roomWaitMs);
      signal?.addEventListener('abort', abort);
      waiting.add(place);
      admit();
      if (waiting.has(place) && isCrowded(tenant_id)) place.leave('BUSY');
      try {
        return await promise;
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
      }
    },
    takeForRequest: (tenant_id, bytes) => {
      if (!requests.fitsTenant(tenant_id, bytes) || !requests.fitsAll(bytes)) throw new EgressFault('BUSY');
      return requests.take(tenant_id, bytes, () => {});
    },
    close: () => {
      isClosed = true;
      for (const place of waiting) place.leave('ABORTED');
    },
  };
};

type Counter = {
  fitsTenant(tenant_id: string, bytes: number): boolean;
  fitsAll(bytes: number): boolean;
  /** Without asking whether it fits. */
  take(tenant_id: string, bytes: number, onFreed: () => void): Room;
};

const createCounter = (bytesMax: number, bytesPerTenantMax: number): Counter => {
  const heldBy = new Map<string, number>();
  let held = 0;

  const add = (tenant_id: string, bytes: number): void => {
    held += bytes;
    const own = (heldBy.get(tenant_id) ?? 0) + bytes;
    if (own === 0) heldBy.delete(tenant_id);
    else heldBy.set(tenant_id, own);
  };

  return {
    fitsTenant: (tenant_id, bytes) => (heldBy.get(tenant_id) ?? 0) + bytes <= bytesPerTenantMax,
    fitsAll: (bytes) => held + bytes <= bytesMax,
    take: (tenant_id, bytes, onFreed) => {
      let left = bytes;
      add(tenant_id, bytes);
      const shrinkTo = (wanted: number): void => {
        if (wanted >= left) return;
        add(tenant_id, wanted - left);
        left = wanted;
        onFreed();
      };
      return { shrinkTo, release: () => shrinkTo(0) };
    },
  };
};
