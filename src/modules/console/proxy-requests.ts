// The newest requests through a proxy, with their outcome.
import { html, type Html } from '../../platform/http/html.ts';
import { FORWARDS_PATH } from './forward-record.ts';
import {
  callerLine,
  destinationLine,
  durationBar,
  errorLine,
  findRunNames,
  outcomeBadge,
  type Run,
  RUNS_PATH,
} from './run-record.ts';
import { addressOf, may, recordsTable, time } from './shell.ts';
import { bodyOf, type Visit } from './visit.ts';

const SHOWN_MAX = 10;

/** Undefined for a role that does not read the log. */
export const requestsCard = async (visit: Visit, proxy_id: string): Promise<Html | undefined> => {
  if (!may(visit.session, 'log:read')) return undefined;
  const filter = { kind: 'proxy', resource_id: proxy_id };
  const answer = await visit.api({ method: 'GET', url: addressOf('/runs', { ...filter, size: String(SHOWN_MAX) }) });
  const { data } = bodyOf<{ data: Run[] }>(answer);
  const names = await findRunNames(visit, data);
  const longestMs = Math.max(...data.map(({ duration_ms = 0 }) => duration_ms));
  return html`<section id="requests"><div class="heading"><h2>Latest requests</h2><span class="row-actions">${may(visit.session, 'forward:read') && html`<a href="${addressOf(FORWARDS_PATH, { proxy_id })}">Those with an idempotency key</a>`}<a href="${addressOf(RUNS_PATH, { resource_id: proxy_id })}">All runs</a></span></div>
${
  data.length === 0
    ? html`<p class="quiet">No requests yet.</p>`
    : recordsTable('Latest requests', data, [
        { label: 'When', cell: ({ id, created_at }) => html`<a href="${RUNS_PATH}/${id}">${time(created_at)}</a>` },
        { label: 'Outcome', cell: outcomeBadge },
        { label: 'Destination', cell: destinationLine },
        { label: 'Took', cell: ({ duration_ms, outcome }) => durationBar(duration_ms, longestMs, outcome) },
        { label: 'Error', cell: (run) => errorLine(visit, run) },
        { label: 'Caller', cell: (run) => callerLine(run, names) },
      ])
}</section>`;
};
