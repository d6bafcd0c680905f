// Exports log entries as newline-delimited JSON or CSV (RFC 4180), portion by portion.
import { csvCell } from '../../platform/base/csv-cell.ts';
import type { LogRecord } from './logs.ts';

/** The first one wins where a client accepts several equally. */
const formats = ['application/json', 'application/x-ndjson', 'text/csv'] as const;

export type LogFormat = (typeof formats)[number];

/** The order of the columns. */
const columns = [
  'created_at',
  'tenant_id',
  'actor_type',
  'actor_id',
  'operation',
  'outcome',
  'disclosure',
  'entity_type',
  'entity_id',
  'entity_ids',
  'message',
  'reactor_id',
  'proxy_id',
  'destination_host',
  'trace_id',
  'ip',
  'otel_trace_id',
  'application_id',
  'code_application_id',
  'actor_name',
  'entity_name',
  'reason',
  'id',
] as const satisfies readonly Exclude<keyof LogRecord, 'is_list'>[];

/** The format that an Accept header prefers (RFC 9110 section 12.5.1): a page in JSON unless it names another one. */
export const formatOf = (accept: string | undefined): LogFormat => {
  let best: { format: LogFormat; quality: number } | undefined;
  for (const range of accept?.split(',') ?? []) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const format = formats.find((each) => each === type);
    const quality = Number(parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? 1);
    if (format && quality > 0 && quality > (best?.quality ?? 0)) best = { format, quality };
  }
  return best?.format ?? 'application/json';
};

/** Clients can choose ids. */
const cellOf = (value: string | readonly string[] | undefined): string =>
  value === undefined ? '' : csvCell(typeof value === 'string' ? value : value.join(' '));

const csvLine = (cells: readonly string[]): string => `${cells.join(',')}\r\n`;

/** The text of an export. */
export async function* exportText(
  portions: AsyncIterable<LogRecord[]>,
  format: Exclude<LogFormat, 'application/json'>,
): AsyncGenerator<string> {
  const isCsv = format === 'text/csv';
  if (isCsv) yield csvLine(columns);
  const lineOf = (record: LogRecord): string =>
    isCsv ? csvLine(columns.map((column) => cellOf(record[column]))) : `${JSON.stringify(record)}\n`;
  for await (const portion of portions) yield portion.map(lineOf).join('');
}
