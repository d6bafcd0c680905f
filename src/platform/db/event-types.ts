// The types of events that webhooks may ask for, and which event a row of the audit log or the end of a run is.
import type { Alarm } from '../base/log.ts';
import type { NewLog } from './audit-rows.ts';
import {
  DRAFT_DELETED,
  DRAFT_SAVED,
  KEY_CHANGED,
  KEY_CREATED,
  KEY_REVOKED,
  TOKEN_EXPIRED,
  tokenEntities,
} from './audit-record.ts';
import type { NewRun, RunOutcome } from './run-rows.ts';

const descriptions = {
  'token.created': 'A token was created.',
  'token.updated': 'A token, its security code or its links were changed.',
  'token.deleted': 'A token was deleted.',
  'token.expired': 'A token was deleted because it expired.',
  'application.created': 'An application was created.',
  'application.updated': 'An application was changed.',
  'application.deleted': 'An application was deleted.',
  'application_key.created': 'An API key was created.',
  'application_key.updated': 'The name, end or addresses of an API key were changed.',
  'application_key.deleted': 'An API key was ended.',
  'application_key.expiring': 'An API key ends within seven days, and again: within one day.',
  'proxy.created': 'A stored proxy was created.',
  'proxy.updated': 'A stored proxy was changed.',
  'proxy.deleted': 'A stored proxy was deleted.',
  'proxy.failed': 'A request through a stored proxy failed.',
  'reactor.created': 'A reactor was created.',
  'reactor.updated': 'A reactor was changed.',
  'reactor.deleted': 'A reactor was deleted.',
  'reactor.failed': 'A run of a reactor failed.',
  'forward.unknown': 'A request with an idempotency key was sent, and its outcome is not known.',
  'member.created': 'A person joined the tenant.',
  'member.updated': 'A role, a password or a second factor of a member was changed.',
  'member.deleted': 'A member was removed.',
  'access.refused': 'Requests were refused: one event a minute for each caller, with their number.',
  'alarm.raised': 'The vault raised an alarm about the tenant.',
} as const;

export type EventType = keyof typeof descriptions;

export const eventTypes = Object.keys(descriptions) as EventType[];

export const describeEvent = (type: EventType): string => descriptions[type];

/** A webhook that asks for this gets every type, those of later versions too. */
export const EVERY_EVENT = '*';

/** The event that a caller asks for to try a webhook. No webhook asks for it. */
export const PING = 'webhook.ping';

/** In the body of an event beside its id, type and time. Ids, names of the vault's own and counts: never a value or a fingerprint. */
export type EventFacts = Record<string, string | number | null | { id: string | null; type: string | null }>;

export type NewEvent = {
  /** Time-ordered. The ids of its deliveries are made of it and the entity: the same event is not written twice. */
  source_id: string;
  type: EventType | typeof PING;
  /** Events of one entity are delivered in order. */
  entity_id: string;
  occurred_at: string;
  due_at: string;
  facts: EventFacts;
  /** For events that count what happens until they are sent. */
  count?: number;
  /** Whether the entity is a token, whose container the webhooks may name. */
  is_token: boolean;
  /** Container of a token that is gone. Left out: the container that the token has now. */
  container?: string | undefined;
};

const isToken: ReadonlySet<string> = new Set(tokenEntities);

/** What an area of events is in the log. */
const areas: Readonly<Record<string, string>> = {
  application: 'application',
  proxy: 'proxy',
  reactor: 'reactor',
  tenant_member: 'member',
};

const keyEvents: Readonly<Record<string, EventType>> = {
  [KEY_CREATED]: 'application_key.created',
  [KEY_CHANGED]: 'application_key.updated',
  [KEY_REVOKED]: 'application_key.deleted',
};

const changes: Readonly<Record<string, string>> = { create: 'created', update: 'updated', delete: 'deleted' };

/** @returns undefined for a row that is no event, such as that of a reading. */
export const eventTypeOf = (row: NewLog): EventType | undefined => {
  const { outcome, operation, entity_type, message, actor_type } = row;
  // The rows of the vault itself count what other rows do not tell.
  if (outcome === 'refused') return actor_type === 'system' ? undefined : 'access.refused';
  const change = changes[operation];
  if (outcome !== 'success' || change === undefined || message === DRAFT_SAVED || message === DRAFT_DELETED)
    return undefined;
  if (isToken.has(entity_type)) return message === TOKEN_EXPIRED ? 'token.expired' : (`token.${change}` as EventType);
  if (entity_type === 'application' && keyEvents[message]) return keyEvents[message];
  const area = areas[entity_type];
  return area === undefined ? undefined : (`${area}.${change}` as EventType);
};

const MINUTE_MS = 60_000;

/** One event a minute for each caller: its deliveries wait for the end of the minute, and count what comes until then. */
const refusalOf = (row: NewLog): NewEvent => {
  const minute = Math.floor(Date.parse(row.created_at) / MINUTE_MS) * MINUTE_MS;
  const entity_id = row.actor_id ?? row.actor_type ?? 'anonymous';
  return {
    ...aboutOf('access.refused', row, entity_id),
    source_id: minuteId(minute),
    due_at: new Date(minute + MINUTE_MS).toISOString(),
    facts: { id: row.actor_id, actor: { id: row.actor_id, type: row.actor_type } },
    count: 1,
  };
};

/** The id of a minute, as a time-ordered id begins with its time. */
export const minuteId = (minuteMs: number): string => {
  const time = minuteMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
};

const aboutOf = (type: EventType, row: NewLog, entity_id: string): NewEvent => ({
  source_id: row.id,
  type,
  entity_id,
  occurred_at: row.created_at,
  due_at: row.created_at,
  facts: {},
  is_token: isToken.has(row.entity_type),
});

/** The events of a row: one for each entity. */
export const eventsOfLog = (row: NewLog): NewEvent[] => {
  const type = eventTypeOf(row);
  if (type === undefined) return [];
  if (type === 'access.refused') return [refusalOf(row)];
  const actor = { id: row.actor_id, type: row.actor_type };
  const { key_id, containers } = row.event ?? {};
  return row.entity_ids.map((id, index) => ({
    ...aboutOf(type, row, key_id ?? id),
    container: containers?.[index],
    facts: {
      id: key_id ?? id,
      ...(isToken.has(row.entity_type) && { token_type: row.entity_type }),
      ...(key_id !== undefined && { application_id: id }),
      actor,
      log_id: row.id,
    },
  }));
};

/** One event a minute for each alarm and record. */
export const eventOfAlarm = ({ alarm, tenant_id, record, record_id }: Alarm, at: Date): NewEvent => ({
  source_id: minuteId(Math.floor(at.getTime() / MINUTE_MS) * MINUTE_MS),
  type: 'alarm.raised',
  entity_id: `${alarm} ${record_id ?? tenant_id}`,
  occurred_at: at.toISOString(),
  due_at: at.toISOString(),
  is_token: false,
  count: 1,
  facts: {
    id: record_id ?? tenant_id,
    alarm,
    ...(record !== undefined && { record }),
    actor: { id: null, type: 'system' },
  },
});

const failures: ReadonlySet<RunOutcome> = new Set(['failed', 'crashed', 'timed_out', 'out_of_memory']);

const failedTypes: Readonly<Partial<Record<NewRun['kind'], EventType>>> = {
  reactor: 'reactor.failed',
  proxy: 'proxy.failed',
};

/** The event of a run that failed; undefined for others, and where it is of no stored reactor or proxy. */
export const eventOfRun = (run: NewRun, occurred_at: string): NewEvent | undefined => {
  const { id: run_id, kind, resource_id, outcome, status, destination_host, destination_status } = run;
  const type = failedTypes[kind];
  if (type === undefined || resource_id === null || !failures.has(outcome)) return undefined;
  return {
    source_id: run_id,
    type,
    entity_id: resource_id,
    occurred_at,
    due_at: occurred_at,
    is_token: false,
    facts: {
      id: resource_id,
      run_id,
      outcome,
      ...(status !== null && { status }),
      ...(destination_host !== null && { destination_host }),
      ...(destination_status !== null && { destination_status }),
      actor: { id: run.actor_id, type: run.actor_type },
    },
  };
};

/** A forwarded request whose outcome is not known. */
export type UnknownForward = {
  id: string;
  attempts: number;
  proxy_id: string | null;
  destination_host: string;
  actor_id: string;
  actor_type: string;
};

/** @param source_id time-ordered: each time it is a new event. */
export const eventOfForward = (
  { id, attempts, proxy_id, destination_host, actor_id, actor_type }: UnknownForward,
  source_id: string,
  at: Date,
): NewEvent => ({
  source_id,
  type: 'forward.unknown',
  entity_id: id,
  occurred_at: at.toISOString(),
  due_at: at.toISOString(),
  is_token: false,
  facts: {
    id,
    attempts,
    ...(proxy_id !== null && { proxy_id }),
    destination_host,
    actor: { id: actor_id, type: actor_type },
  },
});
