// The pages of forwards, requests of proxies that have an idempotency key: the list, and one with the form that sends it again.
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { maskedText, shownText } from '../code/shown.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { type ForwardRecord, isStoredAt, type ShownBody } from '../proxy/forwards/records.ts';
import { findReplay, forwardStates } from '../runs/forward-rows.ts';
import { copyMenu } from './copy.ts';
import { fieldProblem, idOf, invalidAttributes, onceHeader, problemsNotice, tryAgain } from './forms.ts';
import {
  answeredBadge,
  findForwardNames,
  FORWARDS_PATH,
  proxyLine,
  requestLine,
  stateBadge,
} from './forward-record.ts';
import {
  choiceField,
  cursorPager,
  fetchPage,
  type FieldSentences,
  filterChips,
  isolated,
  NAMES_OFFERED_MAX,
  optionsOf,
  otherProblems,
  rangeFields,
  shortened,
  statusOf,
  totalOf,
} from './list-parts.ts';
import { row, tokensCard } from './runs.ts';
import { callerLine, resourceName, type RunNames } from './run-record.ts';
import {
  addressOf,
  badge,
  consolePage,
  csrfField,
  empty,
  may,
  notice,
  recordsTable,
  shownBlock,
  time,
} from './shell.ts';
import { bodyOf, type Console, isSuccess, type Outcome, problemLines, type Submission, type Visit } from './visit.ts';

// The page of a forward: how far the request got, its text and the kept response when asked for, and the form that sends it again.

/** What each state means. */
const meanings: Record<string, string> = {
  begun: 'Nothing was sent yet.',
  sent: 'It is being sent, or the response is awaited.',
  answered: 'The destination responded.',
  unknown: 'It was sent, and no response is known. The destination may have done it: ask it before you send it again.',
  failed: 'Nothing was sent.',
};

const timelineCard = (visit: Visit, forward: ForwardRecord, names: RunNames): Html => {
  const { state, attempts, begun_at, sent_at, answered_at, destination_host } = forward;
  const event = (kind: string, what: HtmlValue, at?: string) =>
    html`<li class="${kind}">${what} <span class="quiet">${time(at)}</span></li>\n`;
  return html`<section class="card"><h2>What happened</h2><p>${meanings[state]}</p><ul class="timeline">
${event('stored', html`<b>Begun</b> by ${callerLine(forward, names)}${attempts > 1 && `, ${attempts} times`}`, begun_at)}
${sent_at !== undefined && event('used', html`<b>Sent</b> to ${isolated(destination_host)}`, sent_at)}
${answered_at !== undefined && event('stored', html`<b>Answered</b> with ${answeredBadge(forward)}`, answered_at)}
${state === 'unknown' && event('errors', html`<b>Unknown</b>: the connection or the server broke off before a response`)}
${state === 'failed' && event('errors', html`<b>Failed</b> before its first byte was sent`)}
</ul></section>`;
};

const answers: Record<string, string> = {
  kept: 'kept for a repetition',
  not_kept: 'not kept: too long, a stream, or a value in it',
};

const detailsCard = (visit: Visit, forward: ForwardRecord, names: RunNames): Html => {
  const { id, replay_of, trace_id, answer } = forward;
  const readsLog = may(visit.session, 'log:read');
  const trace = trace_id !== undefined && html`<span class="mono">${shortened(trace_id)}</span>`;
  return html`<section class="card"><h2>Details</h2><dl>
${row('Proxy', proxyLine(visit, forward, names))}
${row('Response', answers[answer])}
${row('Sent again from', replay_of !== undefined && html`<a class="mono" href="${FORWARDS_PATH}/${replay_of}">${shortened(replay_of)}</a>`)}
${row('Trace id', trace && readsLog ? html`<a href="${addressOf('/console/logs', { trace_id })}">${trace}</a>` : trace)}
${row('Id', html`<span class="mono">${shortened(id)}</span>`)}
</dl>${readsLog && html`<p><a href="${addressOf('/console/logs', { entity_id: id })}">Who read it, and who sent it again</a></p>`}</section>`;
};

const bodyBlock = (heading: string, body: ShownBody | undefined): Html =>
  body?.text === undefined
    ? html`<h3>${heading}</h3><p class="quiet">${body?.base64 === undefined ? 'None.' : `Bytes that are no text: ${Buffer.byteLength(body.base64, 'base64').toLocaleString('en')}.`}</p>`
    : shownBlock(heading, shownText(body.text));

const requestPart = ({ method, request }: ForwardRecord): Html | undefined => {
  if (!request) return undefined;
  const { url = '', path, query, header_names, body, is_body_stored } = request;
  const target = maskedText(`${url}${path}${query === '' ? '' : `?${query}`}`);
  return html`<dl>${row('Request', html`<code>${method} ${target}</code>`)}${row('Headers', html`${header_names.map((name) => html`<code>${name}</code> `)}`)}</dl>
${is_body_stored ? bodyBlock('Body of the request', body) : html`<p class="quiet">Its body is not stored: over 256 KB, or with a security code.</p>`}`;
};

const responsePart = ({ answer, response }: ForwardRecord): Html | undefined => {
  if (answer === 'none') return undefined;
  if (!response)
    return html`<p class="quiet">The response is left out: your role may not use each of its tokens today.</p>`;
  const { status, headers, body } = response;
  return html`<dl>${row('Response', badge(String(status)))}${headers.map(({ name, value }) => row(maskedText(name), html`<bdi>${maskedText(value)}</bdi>`))}</dl>
${answer === 'kept' ? bodyBlock('Body of the response', body) : html`<p class="quiet">Its body is not kept.</p>`}`;
};

/** For a day, and not before a member asks for it. */
const bodiesCard = (visit: Visit, forward: ForwardRecord): Html => {
  const { id, request } = forward;
  const link = html`<p><a class="button second" href="${addressOf(`${FORWARDS_PATH}/${id}`, { bodies: 'yes' })}">Show the request and the response</a></p>
<p class="hint">With expressions in place of values${visit.stepUp !== undefined && ', after your second factor'}. The log says that you read it.</p>`;
  return html`<section class="card" id="bodies"><h2>Request and response</h2>${
    request
      ? html`${requestPart(forward)}${responsePart(forward)}<p class="hint">What looks like a card number or a security code is masked here. The API returns it as it is.</p>`
      : isStoredAt(id, visit.ctx.now())
        ? link
        : html`<p class="quiet">They are kept for a day, which is over.</p>`
  }</section>`;
};

/** What a member ticks, by the state that the page showed: that state comes with the tick. */
const ticks: Record<string, { text: string; risk: string }> = {
  failed: {
    text: 'Send it, with the raw values of its tokens',
    risk: 'Nothing of it was sent. Sent again it takes the place of the first request: a client that repeats that one gets a 409.',
  },
  answered: {
    text: 'Do it once more: send it, with the raw values of its tokens',
    risk: 'The destination has answered it. Sent again, it is done once more: what was charged is charged twice.',
  },
  unknown: {
    text: 'I have asked the destination. Send it, with the raw values of its tokens',
    risk: 'The destination may have done it. Sent again, it may be done a second time.',
  },
};

const NOT_SENT = 'It was not sent again.';

/** A form that was refused. */
type Refused = { above?: Html; sure?: string[]; proxy_id: string; form_id: string };

/** `replay_id`: of its first replay. */
type Again = { proxies: readonly NamedRow[]; replay_id: string | undefined; refused: Refused | undefined };

const againCard = (visit: Visit, forward: ForwardRecord, { proxies, replay_id, refused }: Again): Html | undefined => {
  const { session, ctx } = visit;
  const { id, state, proxy_id, destination_host } = forward;
  if (!may(session, 'forward:replay') || !may(session, 'token:use')) return undefined;
  const tick = ticks[state];
  if (!tick || !isStoredAt(id, ctx.now()))
    return html`<section class="card"><h2>Send again</h2><p class="quiet">${tick ? 'The request is no longer stored: its day is over.' : 'It is under way.'}</p></section>`;
  const sure = refused?.sure ?? [];
  const others = proxies.filter((each) => each.id !== proxy_id).map((each) => [each.id, each.name] as const);
  const choices = [['', `As before, to ${destination_host}`] as const, ...others];
  return html`<section class="card" id="again"><h2>Send again</h2>${replay_id !== undefined && notice('warn', html`It was sent again before: <a href="${FORWARDS_PATH}/${replay_id}">the record of that</a>.`)}<p>${tick.risk} It is a new request of yours, with the rules and limits of now.</p>
<form method="post" action="${FORWARDS_PATH}/${id}/replay">${csrfField(session)}<input type="hidden" name="form_id" value="${refused?.form_id ?? ctx.newUuid()}">
${may(session, 'proxy:read') && html`<label>Through<small>Another proxy, or one that was changed, gets no headers of the first client but those of the body, and Accept.</small><select name="proxy_id">${optionsOf(choices, refused?.proxy_id ?? '')}</select></label>`}
<label class="check"><input type="checkbox" name="sure" value="${state}" required${invalidAttributes('sure-problem', sure)}>${tick.text}${fieldProblem('sure-problem', sure)}</label>
<div class="actions"><button class="danger">Send again</button></div></form></section>`;
};

const readForward = async (visit: Visit, id: string, more: Record<string, string> = {}): Promise<ForwardRecord> =>
  bodyOf<ForwardRecord>(await visit.api({ method: 'GET', url: addressOf(`/forwards/${id}`, more) }));

const showForward = async (visit: Visit, forward: ForwardRecord, refused?: Refused): Promise<string> => {
  const { id, token_ids, state } = forward;
  const db = visit.ctx.db.for(visit.session);
  const [names, tokens, proxies, replay_id] = await Promise.all([
    findForwardNames(visit, [forward]),
    tokensCard(visit, token_ids, 'It has no token.'),
    listNames(db, 'proxy', NAMES_OFFERED_MAX),
    findReplay(db.query, db.tenant_id, id),
  ]);
  const isNew = visit.query('done') === 'replayed';
  const main = html`<p class="quiet"><a href="${FORWARDS_PATH}">Forwards</a></p>
<div class="heading"><h1>${requestLine(forward)}</h1><span>${stateBadge(forward)}</span></div>
${copyMenu(visit, { id, call: { path: `/forwards/${id}` } })}
${isNew && notice(state === 'answered' ? 'good' : 'warn', 'Sent again: this is the record of the new request.')}
${refused?.above}
<div class="columns"><div>${timelineCard(visit, forward, names)}${bodiesCard(visit, forward)}${tokens}</div>
<div>${againCard(visit, forward, { proxies, replay_id, refused })}${detailsCard(visit, forward, names)}</div></div>`;
  return consolePage(visit.session, { title: 'Forward', section: 'Forwards', main });
};

const refusal = (answer: Parameters<typeof problemLines>[0]): Html => {
  const { forward_id } = (answer.body ?? {}) as { forward_id?: string };
  const lines = [...problemLines(answer), tryAgain(answer)].filter((line) => line !== undefined);
  const link =
    forward_id !== undefined && html`<p><a href="${FORWARDS_PATH}/${forward_id}">The record that it is about</a></p>`;
  return problemsNotice(NOT_SENT, lines, link);
};

const sendAgain = async (submission: Submission): Promise<Outcome> => {
  const { field } = submission;
  const id = idOf(submission, 'forward');
  const forward = await readForward(submission, id);
  const [proxy_id, form_id] = [field('proxy_id'), field('form_id')];
  const refuse = async (status: number, more: Partial<Refused>): Promise<Outcome> => ({
    status,
    page: await showForward(submission, forward, { proxy_id, form_id, ...more }),
  });
  const sure = field('sure');
  if (sure === '') return refuse(422, { sure: ['Say that it is to be sent. Nothing was sent.'] });
  // What was ticked holds for the state that was shown: its client may have sent it since.
  if (sure !== forward.state || !Object.hasOwn(ticks, sure))
    return refuse(409, { above: problemsNotice(NOT_SENT, ['Its state has changed since the page was opened.']) });
  const json = { ...(proxy_id !== '' && { proxy_id }), ...(forward.state === 'unknown' && { accept_risk: true }) };
  const headers = onceHeader(field);
  const answer = await submission.api({ method: 'POST', url: `/forwards/${id}/replay`, headers, json });
  if (isSuccess(answer))
    return { seeOther: addressOf(`${FORWARDS_PATH}/${(answer.body as ForwardRecord).id}`, { done: 'replayed' }) };
  // The id of a form that was sent with another choice is taken.
  const next = answer.status === 422 ? submission.ctx.newUuid() : form_id;
  return refuse(answer.status, { above: refusal(answer), form_id: next });
};

/** Pages of one forward. */
const forwardPages = (console: Console): void => {
  console.get(`${FORWARDS_PATH}/:id`, async (visit) => {
    const more = visit.query('bodies') === 'yes' ? { include: 'bodies' } : undefined;
    return showForward(visit, await readForward(visit, idOf(visit, 'forward'), more));
  });
  console.get(`${FORWARDS_PATH}/:id/replay`, async (visit) => ({
    seeOther: `${FORWARDS_PATH}/${idOf(visit, 'forward')}`,
  }));
  console.postAfterCode(`${FORWARDS_PATH}/:id/replay`, sendAgain);
};

const filterNames = ['state', 'proxy_id', 'start_date', 'end_date'] as const;

type Filter = Record<(typeof filterNames)[number], string>;

const CHOICES = [
  ['All', ''],
  ['Unknown', 'unknown'],
] as const;

const filterForm = (
  filter: Filter,
  { proxies, chosen, problems }: { proxies: readonly NamedRow[]; chosen: Html; problems: FieldSentences },
): Html => {
  const isFiltered = filterNames.some((name) => filter[name] !== '');
  const { state, proxy_id } = filter;
  const states = forwardStates.map((each) => [each, each] as const);
  const named = proxies.map(({ id, name }) => [id, name] as const);
  const others = proxy_id === '' || proxies.some(({ id }) => id === proxy_id) ? [] : [[proxy_id, chosen] as const];
  return html`<form action="${FORWARDS_PATH}" class="card"><div class="filters even">
${choiceField({ name: 'state', label: 'State', problems }, optionsOf(states, state))}
${choiceField({ name: 'proxy_id', label: 'Proxy', problems }, optionsOf([...others, ...named], proxy_id))}
${rangeFields(filter, problems)}
</div><div class="actions"><button>Filter</button>${isFiltered && html`<a class="button second" href="${FORWARDS_PATH}">All forwards</a>`}</div></form>`;
};

const forwardsTable = (visit: Visit, forwards: readonly ForwardRecord[], names: RunNames): Html =>
  recordsTable('Forwards', forwards, [
    { label: 'When', cell: ({ id, begun_at }) => html`<a href="${FORWARDS_PATH}/${id}">${time(begun_at)}</a>` },
    { label: 'State', cell: (forward) => html`${stateBadge(forward)} ${answeredBadge(forward)}` },
    {
      label: 'Request',
      cell: (forward) =>
        html`${requestLine(forward)}${forward.replay_of !== undefined && html` <span class="quiet">sent again</span>`}`,
    },
    { label: 'Proxy', cell: (forward) => proxyLine(visit, forward, names) },
    { label: 'Caller', cell: (forward) => callerLine(forward, names) },
  ]);

const showList = async (visit: Visit) => {
  const filter = Object.fromEntries(filterNames.map((name) => [name, visit.query(name)])) as Filter;
  const start = visit.query('start');
  const [listed, proxies] = await Promise.all([
    fetchPage<ForwardRecord>((size) =>
      visit.api({ method: 'GET', url: addressOf('/forwards', { ...filter, start, size: String(size) }) }),
    ),
    listNames(visit.ctx.db.for(visit.session), 'proxy', NAMES_OFFERED_MAX),
  ]);
  const { page, problems } = listed;
  const names = await findForwardNames(visit, page?.data ?? []);
  const chosen = resourceName({ kind: '', resource_id: filter.proxy_id }, names);
  const total = page && totalOf(page);
  const main = html`<div class="heading"><h1>Forwards</h1>${total !== undefined && html`<span class="quiet">${total} found</span>`}</div>
${filterChips(FORWARDS_PATH, { filter, name: 'state', choices: CHOICES, now: visit.ctx.now() })}
${filterForm(filter, { proxies, chosen, problems })}
${otherProblems(problems, filterNames)}
${page && (page.data.length > 0 ? forwardsTable(visit, page.data, names) : empty('No forwards match.'))}
${cursorPager(FORWARDS_PATH, filter, { start, page })}
<p class="quiet">Requests through the proxy that have an idempotency key. One that is unknown was sent, and no response came: the destination may have done it.</p>`;
  return {
    status: statusOf(listed),
    page: consolePage(visit.session, { title: 'Forwards', section: 'Forwards', main }),
  };
};

export const forwardsPages = (console: Console): void => {
  console.get(FORWARDS_PATH, showList);
  forwardPages(console);
};
