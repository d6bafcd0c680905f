// A table of log entries, for the log page.
import { TOKEN_REVEALED } from '../../platform/db/audit-record.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { tokenTypeNames } from '../tokens/token-types.ts';
import { isolated, shortened } from './list-parts.ts';
import { badge, recordsTable, time } from './shell.ts';
import { tokenLink } from './token-parts.ts';

/** A log entry of the API. */
export type LogEntry = {
  actor_id?: string;
  actor_type?: string;
  actor_name?: string;
  entity_type: string;
  entity_id: string;
  entity_name?: string;
  entity_ids?: string[];
  operation: string;
  message: string;
  reason?: string;
  created_at: string;
  disclosure: string;
  outcome: string;
  destination_host?: string;
};

const kinds: Record<string, 'good' | 'bad' | 'warn'> = { create: 'good', update: 'warn', delete: 'bad' };

/** What members do without a key is a sign-in, a sign-out or a second factor: the message says which. */
const operationBadge = ({ operation, entity_type }: LogEntry): Html =>
  badge(operation === 'use' && entity_type === 'tenant_member' ? 'sign-in' : operation, kinds[operation]);

/** Entries without an actor id are by the operator or by the server itself. */
const actorLine = ({ actor_id, actor_type, actor_name: name }: LogEntry): HtmlValue => {
  if (actor_id === undefined) return actor_type === 'operator' ? 'Operator' : 'System';
  return html`${name === undefined ? html`<span class="mono">${shortened(actor_id)}</span>` : html`<span title="${actor_id}">${isolated(name)}</span>`}
<span class="quiet">${actor_type}</span>`;
};

const entityOf = ({ entity_type, entity_id, entity_name, entity_ids = [] }: LogEntry): Html => {
  if (entity_ids.length > 1) return html`${entity_ids.length} on a page`;
  if (tokenTypeNames.includes(entity_type)) return tokenLink(entity_id);
  return entity_name === undefined
    ? html`<span class="mono">${shortened(entity_id)}</span>`
    : html`<span title="${entity_id}">${isolated(entity_name)}</span>`;
};

const entityLine = (entry: LogEntry, displayNames: ReadonlyMap<string, string>): Html =>
  html`<span class="quiet">${displayNames.get(entry.entity_type) ?? entry.entity_type}</span><br>${entityOf(entry)}`;

const outcomeKinds: Record<string, 'bad' | 'warn'> = { refused: 'bad', failed: 'bad', replayed: 'warn' };

/** The message. A revealed value and an unsuccessful operation stand out. */
const messageLine = ({ message, outcome, reason }: LogEntry): Html =>
  html`${message === TOKEN_REVEALED ? badge(message, 'warn') : message}${
    outcome !== 'success' && html` ${badge(outcome, outcomeKinds[outcome])}`
  }${reason !== undefined && html`<br><span class="quiet">${isolated(reason)}</span>`}`;

/** @param displayNames of entity types. */
export const logTable = (entries: readonly LogEntry[], displayNames: ReadonlyMap<string, string>): Html =>
  recordsTable<LogEntry>('Log', entries, [
    { label: 'When', cell: ({ created_at }) => time(created_at) },
    { label: 'Who', cell: actorLine },
    { label: 'Operation', cell: operationBadge },
    { label: 'What', cell: (entry) => entityLine(entry, displayNames) },
    { label: 'Message', cell: messageLine },
    { label: 'Value', cell: ({ disclosure }) => disclosure !== 'none' && badge(disclosure) },
    { label: 'Sent to', cell: ({ destination_host }) => destination_host ?? '' },
  ]);
