// The proxy pages: the list, and one with its newest requests, its key and a form that tries a request.
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { findVersions, proxyCode, restoredNotice, versionPages, versionsCard } from './code-versions.ts';
import { copyMenu } from './copy.ts';
import {
  confirmed,
  ECHO_GUARD_LABEL,
  fieldProblem,
  graceField,
  invalidAttributes,
  isReplayed,
  linesOf,
  onceHeader,
  readGrace,
  typedText,
} from './forms.ts';
import { FORWARDS_PATH } from './forward-record.ts';
import { isolated, namesOf } from './list-parts.ts';
import { KIND, proxySavePages } from './proxy-form.ts';
import { actionAt, failedPage, findRecord, namedList, recordPath, recordUrl } from './resource-pages.ts';
import { sendRequest, showPreview } from './proxy-try.ts';
import type { Proxy } from './proxy-record.ts';
import { methods, newRequest, readRequest, type Typed, type TypedProblems } from './proxy-request.ts';
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
import { addressOf, badge, consolePage, csrfField, may, notice, recordsTable, time } from './shell.ts';
import { findTokens, pickerFields } from './token-parts.ts';
import { bodyOf, type Console, isSuccess, type Outcome, problemLines, type Submission, type Visit } from './visit.ts';

// The newest requests through a proxy, with their outcome.

const SHOWN_MAX = 10;

/** Undefined for a role that does not read the log. */
const requestsCard = async (visit: Visit, proxy_id: string): Promise<Html | undefined> => {
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

// The key of a stored proxy: the form that replaces it, and the page that shows the new one.

const PATH = KIND.path;

const rotationForm = ({ session, ctx }: Pick<Visit, 'session' | 'ctx'>, { id }: Pick<Proxy, 'id'>): Html =>
  confirmed(session, {
    action: `${PATH}/${id}/key`,
    summary: 'Replace the key',
    question: 'The new key works at once, and is shown once. A key that was replaced before ends now.',
    button: 'Replace the key',
    fields: html`<input type="hidden" name="form_id" value="${ctx.newUuid()}">
${graceField}`,
  });

const newKeyPage = ({ session }: Visit, { id, name, key, require_auth, previous_key_ends_at }: Proxy): string =>
  consolePage(session, {
    title: 'New key',
    section: 'Proxies',
    main: html`<p class="quiet"><a href="${PATH}">Proxies</a></p>
<h1>The new key of ${isolated(name)}</h1>
<section class="card revealed">
${notice('warn', html`<strong>Give callers the new key.</strong> The replaced key ${previous_key_ends_at === undefined ? 'has ended' : html`works until ${time(previous_key_ends_at)}`}.`)}
<p><code data-copy>${key}</code></p>
<p class="hint">Callers send it as <code>SVC-PROXY-KEY</code>.${!require_auth && ' It is all that they need: treat it as a secret.'}</p>
</section>
<p><a class="button second" href="${PATH}/${id}">Done</a></p>`,
  });

const notReplaced = (submission: Submission, status: number, lines: readonly string[]): Outcome => {
  const shown = { title: 'New key', heading: 'The key was not replaced.', lines };
  return { status, page: failedPage(submission, KIND, shown) };
};

const replaceKey = async (submission: Submission): Promise<Outcome> => {
  const grace_seconds = readGrace(submission.field);
  if (grace_seconds === undefined)
    return notReplaced(submission, 400, ['The form does not say when the current key ends.']);
  const answer = await submission.api({
    method: 'POST',
    url: `${recordUrl(submission, KIND)}/rotate-key`,
    // A form that is sent twice replaces the key once.
    headers: onceHeader(submission.field),
    json: { grace_seconds },
    // With the key of an open proxy the member gets all that its application holds.
    withAllGrants: true,
  });
  if (!isSuccess(answer)) return notReplaced(submission, answer.status, problemLines(answer));
  if (isReplayed(answer)) return { seeOther: recordPath(submission, KIND) };
  return newKeyPage(submission, answer.body as Proxy);
};

// The page of a stored proxy, or of a typed destination, with a form that tries a request.
// The key is hidden until the member opens it, after the second factor, because it may be all that a caller needs.

type Tester = {
  /** Undefined for a typed destination. */
  proxy: Proxy | undefined;
  application: string | undefined;
  typed: Typed;
  problems: TypedProblems;
  above?: HtmlValue;
  /** The newest requests through the proxy. */
  requests?: HtmlValue;
  versions?: HtmlValue;
  /** Tokens for the body, after a search. */
  picked?: Html;
};

const authBadge = ({ require_auth }: Proxy): Html =>
  require_auth ? badge('API key needed', 'good') : badge('no API key needed', 'warn');

const transformBlock = (name: string, transform: { code: string } | undefined): Html | undefined =>
  transform &&
  html`<details><summary>${name}</summary><pre tabindex="0" role="region" aria-label="${name}"><code>${transform.code}</code></pre></details>`;

const list = (values: readonly string[] | undefined, otherwise: string): HtmlValue =>
  values === undefined || values.length === 0
    ? html`<span class="quiet">${otherwise}</span>`
    : values.map((value) => html`<code>${value}</code> `);

const keyBlock = ({ key, require_auth }: Proxy, stepUp: string | undefined): Html | undefined => {
  if (key === undefined) return undefined;
  if (stepUp !== undefined)
    return html`<p><a href="${stepUp}">Show the key</a> <span class="hint">after your second factor.</span></p>`;
  return html`<details><summary>Show the key</summary><p><code data-copy>${key}</code></p><p class="hint">Callers send it as <code>SVC-PROXY-KEY</code>.${!require_auth && ' It is all that they need: treat it as a secret.'}</p></details>`;
};

/** What does not work because the proxy has no application. */
const lackOf = (proxy: Proxy): string | undefined => {
  if (proxy.application_id !== undefined) return undefined;
  if (usesService(proxy)) return 'A transform uses svc, and the proxy has no application: svc is null there.';
  return proxy.require_auth || proxy.expressions === 'off'
    ? undefined
    : 'Callers need no API key, and the proxy has no application: their requests with expressions are refused.';
};

const usesService = ({ request_transform, response_transform }: Proxy): boolean =>
  [request_transform, response_transform].some((transform) => /\bsvc\b/.test(transform?.code ?? ''));

const routeCard = (
  visit: Pick<Visit, 'session' | 'stepUp' | 'ctx'>,
  proxy: Proxy,
  application: string | undefined,
): Html => {
  const { client_certificate, previous_key_ends_at } = proxy;
  const lack = lackOf(proxy);
  return html`<section class="card"><h2>Route</h2><dl>
<dt>Destination</dt><dd><code>${proxy.destination_url}</code></dd>
<dt>Access</dt><dd>${authBadge(proxy)}</dd>
<dt>Expressions</dt><dd>${proxy.expressions === 'on' ? 'on' : 'off: braces in requests are data'}</dd>
<dt>Application</dt><dd>${application ?? html`<span class="quiet">none</span>`}</dd>
<dt>Hosts</dt><dd>${list(proxy.allowed_hosts, 'any host')}</dd>
<dt>Timeout</dt><dd>${proxy.timeout_seconds} seconds for the head of a response</dd>
${proxy.echo_guard !== undefined && html`<dt>${ECHO_GUARD_LABEL}</dt><dd>${proxy.echo_guard}</dd>`}
${proxy.cvc?.until === 'answered' && html`<dt>Security codes</dt><dd>go when the answer has come</dd>`}
${proxy.amount && html`<dt>Amount</dt><dd><code>${proxy.amount.value}</code> in ${proxy.amount.unit} units of <code>${proxy.amount.currency}</code></dd>`}
${proxy.idempotency_header !== undefined && html`<dt>Idempotency key</dt><dd>in <code>${proxy.idempotency_header}</code></dd>`}
<dt>Configuration</dt><dd>${list(Object.keys(proxy.configuration ?? {}), 'none')}</dd>
<dt>Client certificate</dt><dd>${client_certificate ? html`until ${time(client_certificate.expires_at)}` : html`<span class="quiet">none</span>`}</dd>
${previous_key_ends_at !== undefined && html`<dt>Replaced key</dt><dd>until ${time(previous_key_ends_at)}</dd>`}
<dt>Created</dt><dd>${time(proxy.created_at)}</dd></dl>
${lack !== undefined && notice('warn', lack)}
${transformBlock('Request transform', proxy.request_transform)}
${transformBlock('Response transform', proxy.response_transform)}
${keyBlock(proxy, visit.stepUp)}
${may(visit.session, 'proxy:update') && rotationForm(visit, proxy)}
${
  may(visit.session, 'proxy:delete') &&
  confirmed(visit.session, {
    action: `/console/proxies/${proxy.id}/delete`,
    summary: 'Delete this proxy',
    question: 'Its key stops working now, everywhere. Its application stays.',
    button: `Delete ${proxy.name}`,
  })
}
</section>`;
};

const problemOf = (problems: TypedProblems, name: keyof TypedProblems): string[] => problems[name] ?? [];

const destinationField = ({ typed, problems }: Tester): Html => {
  const sentences = problemOf(problems, 'destination');
  return html`<label>Destination<input type="url" name="destination" value="${typed.destination}" placeholder="https://api.example.com/v1" required autocomplete="off"${invalidAttributes('destination-problem', sentences)}>${fieldProblem('destination-problem', sentences)}</label>`;
};

const area = (
  { typed, problems }: Tester,
  field: { name: 'headers' | 'body'; label: string; hint: Html; rows: number },
): Html => {
  const { name, label, hint, rows } = field;
  const sentences = problemOf(problems, name);
  return html`<label>${label}<small>${hint}</small><textarea class="code" name="${name}" rows="${rows}" spellcheck="false" autocapitalize="off" autocomplete="off"${invalidAttributes(`${name}-problem`, sentences)}>${typedText(typed[name])}</textarea>${fieldProblem(`${name}-problem`, sentences)}</label>`;
};

/** The default button previews. To send needs a tick, because it sends raw values. */
const testerCard = (visit: Pick<Visit, 'session'>, tester: Tester): Html => {
  const { session } = visit;
  const { proxy, typed, problems } = tester;
  const path = problemOf(problems, 'path');
  const method = problemOf(problems, 'method');
  const sure = problemOf(problems, 'sure');
  return html`<section class="card"><h2>Try a request</h2>
<form method="post" action="/console/proxies/${proxy?.id ?? 'test'}" autocomplete="off">${csrfField(session)}
${!proxy && destinationField(tester)}
<div class="request-line"><label>Method<select name="method"${invalidAttributes('method-problem', method)}>${methods.map(
    (each) => html`<option${attribute('selected', each === typed.method)}>${each}</option>`,
  )}</select>${fieldProblem('method-problem', method)}</label>
<label>Path and query<input class="mono" name="path" value="${typed.path}" spellcheck="false" autocapitalize="off" autocomplete="off"${invalidAttributes('path-problem', path)}>${fieldProblem('path-problem', path)}</label></div>
${area(tester, { name: 'headers', label: 'Headers', hint: html`One on each line: <code>Name: value</code>`, rows: 3 })}
${area(tester, { name: 'body', label: 'Body', hint: html`<code>{{ token id }}</code> becomes the value of the token`, rows: 8 })}
<div class="actions"><button name="do" value="preview" formnovalidate data-main>Preview</button><span class="hint">sends nothing</span></div>
${pickerFields(visit, tester.picked)}
<fieldset><legend>Send for real</legend>
<label class="check"><input type="checkbox" name="sure" value="yes" required${invalidAttributes('sure-problem', sure)}>Send it, with the raw values of the tokens, to ${proxy ? html`<code>${hostOf(proxy.destination_url)}</code>` : 'the destination'}${fieldProblem('sure-problem', sure)}</label>
<div class="actions"><button name="do" value="send" class="danger">Send for real</button></div></fieldset>
</form></section>`;
};

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url);

const proxyPage = (visit: Visit, tester: Tester): string => {
  const { session } = visit;
  const { proxy, application, above, requests, versions } = tester;
  const title = proxy?.name ?? 'Try a destination';
  return consolePage(session, {
    title,
    section: 'Proxies',
    main: html`<p class="quiet"><a href="/console/proxies">Proxies</a></p>
<div class="heading"><h1>${isolated(title)}</h1>${
      proxy &&
      may(session, 'proxy:update') &&
      html`<a class="button second" href="/console/proxies/${proxy.id}/edit">Change</a>`
    }</div>
${proxy && copyMenu(visit, { id: proxy.id, call: { path: `/proxies/${proxy.id}` } })}
${above}
${
  proxy
    ? html`<div class="columns"><div>${testerCard(visit, tester)}</div><div>${routeCard(visit, proxy, application)}</div></div>
${requests}${versions}`
    : html`<p class="quiet">A request to a destination without a stored proxy.</p>${testerCard(visit, tester)}`
}`,
  });
};

/** Results that a URL may name. A closed list, because anyone can make a URL. */
const doneSentences: ReadonlyMap<string, string> = new Map([
  ['made', 'The proxy was created. Preview a request below.'],
  ['saved', 'Saved. Takes effect now.'],
]);

const transformsOf = ({ request_transform, response_transform }: Proxy): string =>
  [request_transform && 'request', response_transform && 'response'].filter(Boolean).join(', ') || 'no';

/** Without keys. */
const listTable = (proxies: readonly Proxy[], names: ReadonlyMap<string, string>): Html =>
  recordsTable('Proxies', proxies, [
    { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${isolated(name)}</a>` },
    { label: 'Destination', cell: ({ destination_url }) => html`<code>${destination_url}</code>` },
    { label: 'Access', cell: authBadge },
    {
      label: 'Application',
      cell: ({ application_id: id }) =>
        id === undefined ? html`<span class="quiet">none</span>` : isolated(names.get(id) ?? id),
    },
    { label: 'Transforms', cell: transformsOf },
  ]);

const listPage = (visit: Visit): Promise<string> =>
  namedList<Proxy>(visit, KIND, {
    heading: html`<div class="heading"><h1>Proxies</h1><span class="actions"><a class="button second" href="${PATH}/test">Try a destination</a>${may(visit.session, 'proxy:create') && html`<a class="button" href="${PATH}/new">New proxy</a>`}</span></div>`,
    above: visit.query('done') === 'deleted' && notice('good', 'The proxy was deleted. Its key no longer works.'),
    sample: 'Payments*',
    table: async (rows) => {
      const ids = rows.map(({ application_id }) => application_id);
      return listTable(rows, await namesOf(visit, ids));
    },
  });

const typedIn = ({ field }: Submission): Typed => ({
  destination: field('destination').trim(),
  method: field('method'),
  path: field('path').trim(),
  headers: linesOf(field('headers')),
  body: linesOf(field('body')),
});

/** Shown again where the second factor is needed first. */
const typedFields = ['destination', 'path', 'headers', 'body'];

/** The header that names the proxy or the destination. The key is there for who reads the proxy. */
const routeOf = ({ proxy, typed }: Tester): Record<string, string> =>
  proxy ? { 'svc-proxy-key': proxy.key ?? '' } : { 'svc-proxy-url': URL.parse(typed.destination)?.href ?? '' };

const NO_DESTINATION = { destination: ['The destination must be an https URL.'] };

const tryRequest = async (submission: Submission, tester: Tester): Promise<Outcome> => {
  const show = (status: number, more: Partial<Tester>): Outcome => ({
    status,
    page: proxyPage(submission, { ...tester, ...more }),
  });
  if (submission.field('do') === 'pick')
    return show(200, { picked: await findTokens(submission, submission.field('last4')) });
  const { request, problems } = readRequest(tester.typed, submission.ctx.config.headerPrefixes);
  if (!request) return show(422, { problems });
  if (!tester.proxy && !URL.canParse(tester.typed.destination)) return show(422, { problems: NO_DESTINATION });
  const route = routeOf(tester);
  if (submission.field('do') !== 'send')
    return show(200, { above: await showPreview(submission, { proxy: tester.proxy, request, route }) });
  if (submission.field('sure') !== 'yes')
    return show(422, { problems: { sure: ['Say that it is to be sent. Nothing was sent.'] } });
  return show(200, { above: await sendRequest(submission, request, route) });
};

export const proxiesPages = (console: Console): void => {
  const findTester = async (visit: Visit): Promise<Tester> => {
    const proxy = await findRecord<Proxy>(visit, KIND);
    const id = proxy.application_id;
    const [names, requests, versions] = await Promise.all([
      namesOf(visit, [id]),
      requestsCard(visit, proxy.id),
      findVersions(visit, proxyCode, proxy.id),
    ]);
    const application = id === undefined ? undefined : (names.get(id) ?? id);
    const card = versionsCard(visit, proxyCode, proxy.id, versions);
    return { proxy, application, requests, versions: card, typed: newRequest, problems: {} };
  };

  const byHand: Tester = { proxy: undefined, application: undefined, typed: newRequest, problems: {} };

  console.get(PATH, (visit) => listPage(visit));
  console.get(`${PATH}/test`, async (visit) => proxyPage(visit, byHand));
  // To preview a request needs no second factor, and to send it does: the API asks for it.
  console.post(
    `${PATH}/test`,
    (submission) => tryRequest(submission, { ...byHand, typed: typedIn(submission) }),
    typedFields,
  );
  proxySavePages(console);
  actionAt(console, KIND, 'key', replaceKey);
  versionPages(console, proxyCode);
  console.get(`${PATH}/:id`, async (visit) => {
    const sentence = doneSentences.get(visit.query('done'));
    const above = sentence === undefined ? restoredNotice(visit) : notice('good', sentence);
    return proxyPage(visit, { ...(await findTester(visit)), above });
  });
  console.post(
    `${PATH}/:id`,
    async (submission) => tryRequest(submission, { ...(await findTester(submission)), typed: typedIn(submission) }),
    typedFields,
  );
};
