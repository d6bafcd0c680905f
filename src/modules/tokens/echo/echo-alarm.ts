// Raises the alarm `echo` once for each proxy or reactor and day, by one of the processes on a database.
import { DAY_MS } from '../../../platform/base/times.ts';
import { takeLease } from '../../../platform/db/leases.ts';
import type { Platform } from '../../../platform/services/platform.ts';

export type Alarming = Pick<Platform, 'db' | 'log' | 'metrics' | 'now' | 'newUuid'>;

/** Record whose answer is guarded, for the alarm. */
export type Guarded = { tenant_id: string; record: 'proxy' | 'reactor'; record_id: string | undefined };

/** A lease for each alarm that was raised. The sweep deletes those that have ended. */
export const ECHO_RAISED = 'echo-alarm ';

type Known = { day: number; ids: Set<string> };

/** Alarms of a day that this process has seen: it asks the database once for each. More of them ask again. */
const KNOWN_MAX = 10_000;

const knownOf = new WeakMap<Alarming['db'], Known>();

const isKnown = ({ db }: Alarming, day: number, id: string): boolean => {
  const before = knownOf.get(db);
  const known = before?.day === day && before.ids.size < KNOWN_MAX ? before : { day, ids: new Set<string>() };
  knownOf.set(db, known);
  const isSeen = known.ids.has(id);
  known.ids.add(id);
  return isSeen;
};

/** Raises the alarm also if the database does not answer: rather twice than never. Never rejects. */
export const alarmOncePerDay = async (ctx: Alarming, { tenant_id, record, record_id }: Guarded): Promise<void> => {
  const day = Math.floor(ctx.now().getTime() / DAY_MS);
  const id = `${tenant_id} ${record_id ?? ''}`;
  if (isKnown(ctx, day, id)) return;
  const isFirst = await takeLease(ctx.db, `${ECHO_RAISED}${day} ${id}`, ctx.newUuid(), DAY_MS).catch(() => true);
  if (!isFirst) return;
  ctx.log.error(
    { alarm: 'echo', tenant_id, record, ...(record_id !== undefined && { record_id }) },
    'an answer holds a value that was opened for its request',
  );
};
