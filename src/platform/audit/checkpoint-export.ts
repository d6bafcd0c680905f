// Sends checkpoints of the audit log to a file or an address, where a writer of the database cannot take them back.
import { appendLines } from '../base/append-lines.ts';
import { firstIdAt, LEAST_ID } from '../crypto/ids.ts';
import { takeLease } from '../db/leases.ts';
import { findStreamPosition, moveStreamPosition } from '../db/log-stream.ts';
import { findNewCheckpoints } from '../db/log-trees.ts';
import { runPeriodically } from '../base/periodic.ts';
import type { Platform } from '../services/platform.ts';

const EXPORT_EVERY_MS = 10_000;
/** Longer than a batch takes: another process goes on after this time. */
const LEASE_MS = 30_000;
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
  if (!(await takeLease(db, lease, holder, LEASE_MS))) return;
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
    if (found.length < BATCH || !(await takeLease(db, lease, holder, LEASE_MS))) return;
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
