// Streams the rows of the audit log to a file, one line of JSON each, for a SIEM. One process at a time streams.
import { appendLines } from '../base/append-lines.ts';
import { firstIdAt, timeOfId } from '../crypto/ids.ts';
import { takeLease } from '../db/leases.ts';
import { findStreamPosition, moveStreamPosition, readStreamedRows } from '../db/log-stream.ts';
import { runPeriodically } from '../base/periodic.ts';
import type { Platform } from '../services/platform.ts';

const STREAM = 'file';
const LEASE = 'log-stream';
const STREAM_EVERY_MS = 2_000;
/** Longer than a batch takes: another process goes on after this time. */
const LEASE_MS = 15_000;
/**
 * Rows become visible in another order than that of their ids: an id has the time of the operation, and is visible after the
 * commit. A transaction takes 60 s at most, a statement 10 s, and both wait for their turn before. The clocks of servers
 * differ by a second or so. The stream stays this far behind, so that no row comes too late for it.
 */
export const STREAM_DELAY_MS = 120_000;
/** Rows of one batch: about a MB. */
const BATCH_ROWS = 2_000;
/** The time that one statement reads and sorts. It doubles while that is few rows. */
const SPAN_FIRST_MS = 10_000;
const SPAN_MIN_MS = 100;
const SPAN_MAX_MS = 3_600_000;

type Streaming = Pick<Platform, 'db' | 'now'>;

/**
 * Streams all rows that are old enough, or until another process has the lease. A batch is on disk before the position moves: a
 * crash in between repeats it, and loses nothing.
 * @param holder an id of the process. @throws unavailable; the error of the file.
 */
export const streamLogs = async ({ db, now }: Streaming, path: string, holder: string): Promise<void> => {
  const { query } = db.statements;
  const mayGoOn = (): Promise<boolean> => takeLease(db, LEASE, holder, LEASE_MS);
  if (!(await mayGoOn())) return;
  const end = firstIdAt(now().getTime() - STREAM_DELAY_MS);
  let position = await findStreamPosition(query, STREAM, end);
  for (let spanMs = SPAN_FIRST_MS; position < end;) {
    const spanEnd = firstIdAt(timeOfId(position).getTime() + spanMs);
    const to = spanEnd < end ? spanEnd : end;
    const rows = await readStreamedRows(query, position, to, BATCH_ROWS);
    const isFull = rows.length === BATCH_ROWS;
    if (rows.length > 0)
      await appendLines(
        path,
        rows.map(({ line }) => line),
      );
    const next = (isFull && rows.at(-1)?.id) || to;
    if (!(await moveStreamPosition(query, STREAM, position, next))) return;
    position = next;
    spanMs = isFull ? Math.max(SPAN_MIN_MS, spanMs / 2) : Math.min(SPAN_MAX_MS, spanMs * 2);
    if (position < end && !(await mayGoOn())) return;
  }
};

/** Streams periodically, in turn with other processes. A failure is logged once, and tried again. @returns stop, which waits for a running batch. */
export const startStreaming = (
  ctx: Streaming & Pick<Platform, 'config' | 'log' | 'newUuid'>,
): (() => Promise<void>) => {
  const path = ctx.config.logStream;
  if (path === undefined) return async () => undefined;
  const holder = ctx.newUuid();
  let isFailing = false;
  const stream = async (): Promise<void> => {
    try {
      await streamLogs(ctx, path, holder);
      if (isFailing) ctx.log.info('the audit log is streamed again');
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        ctx.log.error(
          { alarm: 'log_stream_failed', error },
          'the audit log cannot be streamed to LOG_STREAM; it goes on where it stopped when it can',
        );
      isFailing = true;
    }
  };
  return runPeriodically(STREAM_EVERY_MS, stream).stop;
};
