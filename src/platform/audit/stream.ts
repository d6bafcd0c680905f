// Sends the audit log out of the database: rows to a file as lines of JSON, for a SIEM, and checkpoints. One process at a time does.
import { appendLines } from '../base/files.ts';
import { firstIdAt, LEAST_ID, timeOfId } from '../crypto/ids.ts';
import { takeLease } from '../db/leases.ts';
import { findStreamPosition, moveStreamPosition, readStreamedRows } from '../db/log-partitions.ts';
import { findNewCheckpoints } from '../db/log-trees.ts';
import { runPeriodically } from '../base/periodic.ts';
import type { Platform } from '../services/platform.ts';

// Sends checkpoints of the audit log to a file or an address, where a writer of the database cannot take them back.

const EXPORT_EVERY_MS = 10_000;
/** Longer than a batch takes: another process goes on after this time. */
const EXPORT_LEASE_MS = 30_000;
/** Checkpoints of one batch: 150 KB. */
const BATCH = 500;
const REQUEST_MS = 10_000;
/** A receiver that is down is tried again after 20 s, then after twice as long each time, up to this. */
const PAUSE_MAX_MS = 10 * 60_000;

type Exporting = Pick<Platform, 'config' | 'db' | 'log' | 'newUuid' | 'now'>;
type Sink = { name: 'checkpoints-file' | 'checkpoints-url'; send(lines: string[]): Promise<void> };

const post = async (url: string, lines: string[]): Promise<void> => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/jsonl' },
    body: `${lines.join('\n')}\n`,
    redirect: 'error',
    signal: AbortSignal.timeout(REQUEST_MS),
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the receiver of checkpoints answered ${response.status}`);
};

/** Sends all checkpoints that were not sent yet. A crash repeats a batch, and loses none. @throws unavailable; what `send` throws. */
const sendAll = async (
  { db, log, now }: Pick<Exporting, 'db' | 'log' | 'now'>,
  { name, send }: Sink,
  holder: string,
): Promise<void> => {
  const { query } = db.statements;
  const lease = `log-${name}`;
  if (!(await takeLease(db, lease, holder, EXPORT_LEASE_MS))) return;
  // Above all ids that exist by now.
  const end = firstIdAt(now().getTime() + 1);
  let position = await findStreamPosition(query, name, LEAST_ID);
  if (position > end) {
    log.error(
      { alarm: 'tampered', table: 'log_streams', sink: name },
      'the position of the export of checkpoints was moved into the future; all checkpoints are exported again',
    );
    if (!(await moveStreamPosition(query, name, position, LEAST_ID))) return;
    position = LEAST_ID;
  }
  for (;;) {
    const found = await findNewCheckpoints(query, position, end, BATCH);
    const last = found.at(-1);
    if (!last) return;
    await send(found.map(({ tenant_id, note }) => JSON.stringify({ tenant_id, checkpoint: note })));
    if (!(await moveStreamPosition(query, name, position, last.id))) return;
    position = last.id;
    if (found.length < BATCH || !(await takeLease(db, lease, holder, EXPORT_LEASE_MS))) return;
  }
};

const startSending = (ctx: Exporting, sink: Sink): (() => Promise<void>) => {
  const holder = ctx.newUuid();
  let pauseMs = 0;
  let waitsUntilMs = 0;
  const send = async (): Promise<void> => {
    if (performance.now() < waitsUntilMs) return;
    try {
      await sendAll(ctx, sink, holder);
      if (pauseMs > 0) ctx.log.info({ sink: sink.name }, 'checkpoints of the audit log are exported again');
      pauseMs = 0;
    } catch (error) {
      if (pauseMs === 0)
        ctx.log.error(
          { alarm: 'checkpoint_export_failed', sink: sink.name, error },
          'checkpoints of the audit log cannot be exported; it is tried again',
        );
      pauseMs = Math.min(PAUSE_MAX_MS, Math.max(EXPORT_EVERY_MS, pauseMs) * 2);
      waitsUntilMs = performance.now() + pauseMs;
    }
  };
  return runPeriodically(EXPORT_EVERY_MS, send).stop;
};

const sinksOf = ({ logCheckpointFile: path, logCheckpointUrl: url }: Platform['config']): Sink[] => [
  ...(path === undefined ? [] : [{ name: 'checkpoints-file', send: (lines) => appendLines(path, lines) } as Sink]),
  ...(url === undefined ? [] : [{ name: 'checkpoints-url', send: (lines) => post(url, lines) } as Sink]),
];

/** Sends what is new once to every configured place. For tests. @throws unavailable; the error of the place. */
export const exportCheckpoints = async (ctx: Omit<Exporting, 'newUuid'>, holder: string): Promise<void> => {
  for (const sink of sinksOf(ctx.config)) await sendAll(ctx, sink, holder);
};

/** Exports periodically, in turn with other processes. @returns stop, which waits for a running batch. */
export const startExportingCheckpoints = (ctx: Exporting): (() => Promise<void>) => {
  const stops = sinksOf(ctx.config).map((sink) => startSending(ctx, sink));
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
};

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
