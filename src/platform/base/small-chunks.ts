// Joins the small chunks of a body that one read of its socket brings, charges their account, and refuses too many of them.
// All bodies from the network pass here: requests to the server, and responses of destinations.
import type { Account, Accounts } from './accounts.ts';

/**
 * A body may have so many chunks within one second, or more if they have AVERAGE_BYTES_LEAST on average. The HTTP parser takes
 * one to two microseconds for a chunk of any size: without a limit 3 MB in chunks of one byte took 1 to 2 s of the event loop.
 */
const CHUNKS_A_SECOND_MAX = 2_000;
const AVERAGE_BYTES_LEAST = 128;

/** For people: the rule that a refused body breaks. */
export const CHUNKS_RULE = `more than ${CHUNKS_A_SECOND_MAX.toLocaleString('en')} chunks within one second that have less than ${AVERAGE_BYTES_LEAST} bytes on average`;

/** Larger chunks are passed on as they are: a copy of them costs more than it saves. */
const JOINED_BYTES_MAX = 1_024;

/** So many chunks of one read are charged together. Fewer are free: nearly all bodies have fewer, and a charge costs as much. */
const CHARGED_CHUNKS = 64;

/** What a refusal costs its account, as a refused client may connect again at once. The longest rest. */
const REFUSAL_MS = 100;

/** The body whose chunks are joined. */
export type ChunkedBody = {
  /** Who pays for the chunks. */
  account(): Account;
  /** Takes a joined or a large chunk. */
  take(piece: Uint8Array): void;
  /** Stops reading the socket until `resume`: the account is in debt. */
  pause(): void;
  resume(): void;
  /** Ends the body with an error, and reads nothing further. Called once. */
  refuse(): void;
};

/** Joiners that hold chunks of this tick's reads. */
const gathering = new Set<ChunkJoiner>();
let willFlush = false;

const flushAll = (): void => {
  willFlush = false;
  for (const joiner of gathering) joiner.flush();
};

/** A class: there is one for each request with a body, and a closure costs more (CONTRIBUTING.md, "Performance"). */
export class ChunkJoiner {
  readonly #accounts: Pick<Accounts, 'charge' | 'whenPaid'>;
  readonly #body: ChunkedBody;
  #gathered: Uint8Array[] = [];
  /** The time of the last chunk, and that to which this read is charged. The parser hands over its chunks without a pause. */
  #lastMs = 0;
  #chargedMs = 0;
  /** A bucket that leaks CHUNKS_A_SECOND_MAX a second: chunks without those that their bytes make up for. */
  #excess = 0;
  #excessAtMs = 0;
  #isRefused = false;

  constructor(accounts: Pick<Accounts, 'charge' | 'whenPaid'>, body: ChunkedBody) {
    this.#accounts = accounts;
    this.#body = body;
  }

  push(chunk: Uint8Array): void {
    if (this.#isRefused) return;
    const bytes = chunk.byteLength;
    const excess = Math.max(0, this.#excess + 1 - bytes / AVERAGE_BYTES_LEAST);
    if (bytes > JOINED_BYTES_MAX) {
      this.#excess = excess;
      this.flush();
      return this.#body.take(chunk);
    }
    this.#lastMs = performance.now();
    if (this.#gathered.length === 0) this.#begin();
    this.#gathered.push(chunk);
    if (this.#excess === 0) this.#excessAtMs = this.#lastMs;
    this.#excess = excess;
    if (this.#gathered.length % CHARGED_CHUNKS === 0) this.#charge(this.#lastMs - this.#chargedMs);
    if (excess > CHUNKS_A_SECOND_MAX && this.#isTooMany()) this.#refuse();
  }

  /** Passes on what is gathered. To be called at the end of the body; otherwise it happens after the reads of this tick. */
  flush(): void {
    const pieces = this.#gathered;
    if (pieces.length === 0) return;
    gathering.delete(this);
    this.#gathered = [];
    this.#body.take(pieces.length === 1 ? (pieces[0] as Uint8Array) : Buffer.concat(pieces));
    if (pieces.length >= CHARGED_CHUNKS) this.#pauseInDebt();
  }

  #begin(): void {
    this.#chargedMs = this.#lastMs;
    gathering.add(this);
    if (!willFlush) setImmediate(flushAll);
    willFlush = true;
  }

  #isTooMany(): boolean {
    const elapsedMs = this.#lastMs - this.#excessAtMs;
    this.#excess = Math.max(0, this.#excess - (elapsedMs * CHUNKS_A_SECOND_MAX) / 1_000);
    this.#excessAtMs = this.#lastMs;
    return this.#excess > CHUNKS_A_SECOND_MAX;
  }

  #charge(usedMs: number): void {
    this.#accounts.charge(this.#body.account(), usedMs);
    this.#chargedMs = this.#lastMs;
  }

  #pauseInDebt(): void {
    const paid = this.#accounts.whenPaid(this.#body.account());
    if (!paid) return;
    this.#body.pause();
    void paid.then(() => this.#body.resume());
  }

  #refuse(): void {
    this.#isRefused = true;
    gathering.delete(this);
    this.#gathered = [];
    this.#charge(REFUSAL_MS);
    this.#body.refuse();
  }
}
