// A forward as the API returns it: a request of the proxy that has an idempotency key, and the parts that pages show of it.
import { MINUTE_MS } from '../../platform/base/times.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { toIdRange } from '../../platform/crypto/ids.ts';
import type { ForwardRecord } from '../proxy/forwards/records.ts';
import { findForwardByTrace } from '../runs/forward-rows.ts';
import { isolated } from './list-parts.ts';
import { findRunNames, resourceName, resourcePath, type Run, type RunNames, statusKind } from './run-record.ts';
import { badge, may } from './shell.ts';
import type { Visit } from './visit.ts';

export const FORWARDS_PATH = '/console/forwards';

const kinds: Record<string, 'good' | 'bad' | 'warn'> = { answered: 'good', unknown: 'bad', failed: 'warn' };

export const stateBadge = ({ state }: Pick<ForwardRecord, 'state'>): Html => badge(state, kinds[state]);

export const answeredBadge = ({ status }: Pick<ForwardRecord, 'status'>): Html | undefined =>
  status === undefined ? undefined : badge(String(status), statusKind(status));

/** The names of proxies and callers. */
export const findForwardNames = (visit: Visit, forwards: readonly ForwardRecord[]): Promise<RunNames> =>
  findRunNames(
    visit,
    forwards.map(({ proxy_id, actor_id }) => ({ actor_id, ...(proxy_id !== undefined && { resource_id: proxy_id }) })),
  );

/** The stored proxy, with a link for a role that opens it. */
export const proxyLine = (visit: Visit, { proxy_id }: ForwardRecord, names: RunNames): HtmlValue => {
  if (proxy_id === undefined) return html`<span class="quiet">none: the request named its destination</span>`;
  const proxy = { kind: 'proxy', resource_id: proxy_id };
  const path = resourcePath(visit, proxy);
  const name = resourceName(proxy, names);
  return path === undefined ? name : html`<a href="${path}">${name}</a>`;
};

export const requestLine = ({ method, destination_host }: ForwardRecord): Html =>
  html`<span class="mono">${method}</span> ${isolated(destination_host)}`;

/** The time of a run is by a clock that no one sets, that of an id is not. */
const SLACK_MS = 1_000;

/** The id of the record that a run of the proxy began. Undefined without one, and for a role that reads none. */
export const findForwardOfRun = async (visit: Visit, run: Run): Promise<string | undefined> => {
  const { kind, trace_id, created_at, duration_ms = MINUTE_MS } = run;
  if (kind !== 'proxy' || trace_id === undefined || !may(visit.session, 'forward:read')) return undefined;
  const start_date = new Date(created_at);
  const end_date = new Date(start_date.getTime() + duration_ms + SLACK_MS);
  return findForwardByTrace(visit.ctx.db.for(visit.session), trace_id, toIdRange({ start_date, end_date }));
};
