// Writes events for webhooks in the transaction of the change, and knows which tenants have webhooks, so that the others pay nothing.
import { setTimeout as pause } from 'node:timers/promises';
import type { Announced } from '../base/cache.ts';
import type { Alarm, Log } from '../base/log.ts';
import { sha256Hex } from '../crypto/digest.ts';
import type { NewLog } from './audit-rows.ts';
import { EVERY_EVENT, eventOfAlarm, eventOfRun, eventsOfLog, type NewEvent } from './event-types.ts';
import type { LogMacs } from './log-macs.ts';
import type { NewRun } from './run-rows.ts';
import type { Query } from './statements.ts';

const FIND_WANTED = `SELECT tenant_id, array_agg(DISTINCT wanted) AS types
FROM webhooks CROSS JOIN LATERAL unnest(events) AS wanted
WHERE status = 'enabled' AND ($1::uuid IS NULL OR tenant_id = $1) GROUP BY tenant_id`;

/**
 * A delivery for each webhook that asks for the event. The webhooks are those of the transaction, whatever the process knows. The id
 * begins with the time of the source and ends with a digest of what it is for: repeated, it is the same, and the event counts once
 * more if it counts. Tokens that are gone come with their container.
 */
const QUEUE = `
INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, type, entity_id, event, mac, count, due_at, queued_at)
SELECT $1::uuid, (left(e.source_id::text, 13) || '-7' || substr(d.hex, 1, 3) || '-8' || substr(d.hex, 4, 3) || '-' || substr(d.hex, 7, 12))::uuid,
  w.id, e.type, e.entity_id, e.event, e.mac, e.count, e.due_at, clock_timestamp() + e.n * interval '1 microsecond'
FROM json_to_recordset($2::json) AS e(n int, source_id uuid, type text, entity_id text, event text, mac uuid, count int, due_at timestamptz,
  is_token boolean, container text)
JOIN webhooks w ON w.tenant_id = $1 AND w.status = 'enabled' AND (e.type = ANY (w.events) OR '${EVERY_EVENT}' = ANY (w.events))
LEFT JOIN LATERAL (
  SELECT container FROM tokens WHERE e.is_token AND e.container IS NULL AND w.container IS NOT NULL AND tenant_id = $1 AND id = e.entity_id
) AS t ON true
CROSS JOIN LATERAL (
  SELECT encode(sha256(convert_to(w.id::text || e.source_id::text || e.type || e.entity_id, 'UTF8')), 'hex') AS hex
) AS d
WHERE w.container IS NULL OR NOT e.is_token OR starts_with(coalesce(e.container, t.container), w.container)
ON CONFLICT (tenant_id, id) DO UPDATE
SET count = webhook_deliveries.count + 1 WHERE webhook_deliveries.attempts = 0 AND webhook_deliveries.count IS NOT NULL`;

/** Events of one statement: some 100 KB of text. */
const EVENTS_AT_ONCE = 500;

/** How long until the list of webhooks is read again where it could not be read. */
const RELOAD_MS = 1_000;

/** The transaction commits meanwhile; a delivery that is not there yet is found by the next look. */
const TELL_MS = 5;

/** The part of an event that its MAC covers. */
export type StoredEvent = Pick<NewEvent, 'type' | 'entity_id' | 'source_id' | 'occurred_at' | 'facts'>;

/** The id of the delivery of an event to a webhook, as QUEUE makes it: a row that was moved to another webhook has another one. */
export const deliveryIdOf = (
  webhook_id: string,
  { source_id, type, entity_id }: Pick<StoredEvent, 'source_id' | 'type' | 'entity_id'>,
): string => {
  const hex = sha256Hex(`${webhook_id}${source_id}${type}${entity_id}`);
  return `${source_id.slice(0, 13)}-7${hex.slice(0, 3)}-8${hex.slice(3, 6)}-${hex.slice(6, 18)}`;
};

export type Events = ReturnType<typeof createEvents>;

/** @param query sees rows of every tenant. */
export const createEvents = (query: Query, logMacs: Pick<LogMacs, 'macOfEvent'>) => {
  /** The types that the webhooks of a tenant ask for. Tenants without webhooks are not in it. */
  let wanted = new Map<string, ReadonlySet<string>>();
  let loading: Promise<void> = Promise.resolve();
  let log: Log | undefined;
  const listeners: (() => void)[] = [];

  const load = async (tenant_id: string | null): Promise<void> => {
    const found = (await query('find-wanted-events', FIND_WANTED, [tenant_id])) as {
      tenant_id: string;
      types: string[];
    }[];
    if (tenant_id === null) wanted = new Map();
    else wanted.delete(tenant_id);
    for (const row of found) wanted.set(row.tenant_id, new Set(row.types));
  };

  /** One after another: the last one that begins has the last word. */
  const loadNext = (tenant_id: string | null): Promise<void> => (loading = loading.then(() => load(tenant_id)));

  const reload = async (tenant_id: string | null): Promise<void> => {
    try {
      await loadNext(tenant_id);
    } catch (error) {
      log?.warn({ error }, 'the webhooks could not be read; it is tried again');
      loading = Promise.resolve();
      await pause(RELOAD_MS, undefined, { ref: false });
      void reload(null);
    }
  };

  const wants = (tenant_id: string, type: string): boolean => {
    const types = wanted.get(tenant_id);
    return types !== undefined && (types.has(type) || types.has(EVERY_EVENT));
  };

  const tell = (): void => {
    for (const listener of listeners) setTimeout(listener, TELL_MS).unref();
  };

  const rowOf = (tenant_id: string, { occurred_at, facts, ...event }: NewEvent) => {
    const { type, entity_id, source_id } = event;
    const text = JSON.stringify({ type, entity_id, source_id, occurred_at, facts } satisfies StoredEvent);
    return { ...event, event: text, mac: logMacs.macOfEvent(tenant_id, text) };
  };

  const queue = async (within: Query, tenant_id: string, events: readonly NewEvent[]): Promise<void> => {
    for (let from = 0; from < events.length; from += EVENTS_AT_ONCE) {
      const slice = events.slice(from, from + EVENTS_AT_ONCE);
      const rows = slice.map((event, n) => ({ n: from + n, ...rowOf(tenant_id, event) }));
      await within('queue-events', QUEUE, [tenant_id, JSON.stringify(rows)]);
    }
    if (events.length > 0) tell();
  };

  return {
    /** Reads which events are wanted, and keeps it so. @throws unavailable. */
    open: async (services: {
      log: Log;
      changes: { on(listener: (change: Announced) => void): void };
    }): Promise<void> => {
      ({ log } = services);
      services.changes.on((change) => {
        if (change === 'anything') void reload(null);
        else if (change.subject === 'webhook') void reload(change.id);
      });
      await loadNext(null);
    },

    /** Resolves when this process knows of all changes that were announced to it. */
    settled: (): Promise<void> => loading.catch(() => undefined),

    /** Whether a webhook of the tenant asks for events of the type. */
    wants,

    /** Whether any tenant has a webhook. */
    areWanted: (): boolean => wanted.size > 0,

    /** Tenants with a webhook that asks for a type. */
    tenantsWanting: (type: string): string[] => [...wanted.keys()].filter((tenant_id) => wants(tenant_id, type)),

    /** The wanted events of log rows. */
    ofLogs: (tenant_id: string, rows: readonly NewLog[]): NewEvent[] =>
      wanted.has(tenant_id) ? rows.flatMap(eventsOfLog).filter(({ type }) => wants(tenant_id, type)) : [],

    /** The wanted events of ended runs. */
    ofRuns: (tenant_id: string, runs: readonly NewRun[], at: Date): NewEvent[] =>
      wanted.has(tenant_id)
        ? runs
            .map((run) => eventOfRun(run, at.toISOString()))
            .filter((event) => event !== undefined)
            .filter(({ type }) => wants(tenant_id, type))
        : [],

    /** Writes the deliveries of events within the transaction of their changes. */
    queue,

    /** Writes the event of an alarm, which belongs to no transaction. Where it cannot be written, the process log has the alarm. */
    raise: (alarm: Alarm, at: Date): void => {
      if (wants(alarm.tenant_id, 'alarm.raised'))
        queue(query, alarm.tenant_id, [eventOfAlarm(alarm, at)]).catch(() => undefined);
    },

    /** Calls a listener soon after events were written by this process. */
    onQueued: (listener: () => void): void => void listeners.push(listener),
  };
};
