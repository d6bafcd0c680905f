// The page of a run: how it ended, where its code failed, where it sent a request, its tokens by mask, and its trace.
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { copyMenu } from './copy.ts';
import { findForwardOfRun, FORWARDS_PATH } from './forward-record.ts';
import { idOf } from './forms.ts';
import { shortened } from './list-parts.ts';
import {
  callerLine,
  destinationLine,
  durationText,
  errorLine,
  findRunNames,
  outcomeBadge,
  resourceName,
  resourcePath,
  type Run,
  RUNS_PATH,
} from './run-record.ts';
import { addressOf, badge, consolePage, may, recordsTable, time } from './shell.ts';
import { maskLine, type ShownToken, tokenLink } from './token-parts.ts';
import { bodyOf, type Outcome, type Visit } from './visit.ts';

/** Tokens of a run that its page shows. */
const TOKENS_MAX = 20;

/** What an outcome means, in a sentence. */
const meanings: Record<string, string> = {
  success: 'It returned, or the destination answered below 500.',
  refused: 'Rules, limits, an expression or the code itself refused the request.',
  failed: 'A destination answered 500 or more, or could not be reached.',
  crashed: 'The code threw an error, or its result could not be read.',
  timed_out: 'It took longer than the limit of time or CPU time.',
  out_of_memory: 'The code needed more memory than its limit.',
  cancelled: 'The caller left before it ended.',
  unknown: 'The process of the server died before it ended.',
};

/** The tokens whose values it got. A role that reads no tokens sees their ids. */
const findTokens = async (visit: Visit, ids: readonly string[]): Promise<Map<string, ShownToken>> => {
  if (ids.length === 0 || !may(visit.session, 'token:read')) return new Map();
  const query = new URLSearchParams([...ids.map((id) => ['id', id] as [string, string]), ['size', String(TOKENS_MAX)]]);
  const answer = await visit.api({ method: 'GET', url: `/tokens?${query.toString()}` });
  // Masks of many large tokens together may be more than one response holds: their ids are shown.
  if (answer.status === 413) return new Map();
  const { data } = bodyOf<{ data: ShownToken[] }>(answer);
  return new Map(data.map((token) => [token.id, token]));
};

/** @param none the sentence where there are none. */
export const tokensCard = async (visit: Visit, token_ids: readonly string[], none: string): Promise<Html> => {
  const ids = token_ids.slice(0, TOKENS_MAX);
  const tokens = await findTokens(visit, ids);
  const mayOpen = may(visit.session, 'token:read');
  const table = recordsTable('Tokens', ids, [
    {
      label: 'Masked value',
      cell: (id) => {
        const token = tokens.get(id);
        return token ? maskLine(token) : html`<span class="quiet">${mayOpen ? 'not found' : 'not shown'}</span>`;
      },
    },
    {
      label: 'Type',
      cell: (id) => {
        const token = tokens.get(id);
        return token && badge(token.type);
      },
    },
    { label: 'Id', cell: (id) => (tokens.has(id) ? tokenLink(id) : html`<span class="mono">${shortened(id)}</span>`) },
  ]);
  return html`<section><h2>Tokens</h2>${
    ids.length === 0 ? html`<p class="quiet">${none}</p>` : table
  }${token_ids.length > ids.length && html`<p class="quiet">and ${token_ids.length - ids.length} more</p>`}</section>`;
};

export const row = (name: string, value: HtmlValue): Html | undefined =>
  value === undefined || value === false ? undefined : html`<dt>${name}</dt><dd>${value}</dd>`;

export const runPage = async (visit: Visit): Promise<Outcome> => {
  const id = idOf(visit, 'run');
  const run = bodyOf<Run>(await visit.api({ method: 'GET', url: `/runs/${id}` }));
  const [names, tokens, forward_id] = await Promise.all([
    findRunNames(visit, [run]),
    tokensCard(visit, run.token_ids, 'It got the value of no token.'),
    findForwardOfRun(visit, run),
  ]);
  const path = resourcePath(visit, run);
  const name = resourceName(run, names);
  const { resource_id, trace_id, error, line } = run;
  const main = html`<p class="quiet"><a href="${RUNS_PATH}">Runs</a></p>
<div class="heading"><h1>${name}</h1><span>${outcomeBadge(run)}</span></div>
${copyMenu(visit, { id, call: { path: `/runs/${id}` } })}
<div class="columns"><div>
<section class="card"><h2>What happened</h2><p>${meanings[run.outcome]}</p><dl>
${row('Error', (error !== undefined || line !== undefined) && errorLine(visit, run))}
${row('Destination', destinationLine(run))}
${row('Took', run.duration_ms !== undefined && durationText(run.duration_ms))}
${row('CPU time', run.cpu_ms !== undefined && `${run.cpu_ms} ms`)}
${row('Idempotency key', forward_id !== undefined && html`<a href="${FORWARDS_PATH}/${forward_id}">The record of the request</a>`)}
${row('Trace id', trace_id !== undefined && html`<a class="mono" href="${addressOf('/console/logs', { trace_id })}">${shortened(trace_id)}</a> <span class="quiet">its entries in the log</span>`)}
</dl></section>
${tokens}
</div><section class="card"><h2>Details</h2><dl>
${row('Began', time(run.created_at))}
${row('Kind', run.kind)}
${row('What ran', path === undefined ? name : html`<a href="${path}">${name}</a>`)}
${row('Version', run.version !== undefined && html`<span class="mono">${run.version}</span>`)}
${row('Caller', callerLine(run, names))}
${row('Id', html`<span class="mono">${shortened(run.id)}</span>`)}
</dl>${resource_id !== undefined && html`<p><a href="${addressOf(RUNS_PATH, { resource_id })}">All its runs</a></p>`}</section></div>`;
  return consolePage(visit.session, { title: 'Run', section: 'Runs', main });
};
