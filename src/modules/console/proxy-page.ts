// The page of a stored proxy, or of a typed destination, with a form that tries a request.
// The key is hidden until the member opens it, after the second factor, because it may be all that a caller needs.
import { ECHO_GUARD_LABEL } from './form-fields.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { copyMenu } from './copy.ts';
import { confirmed, invalidAttributes, fieldProblem, typedText } from './forms.ts';
import { isolated } from './list-parts.ts';
import { rotationForm } from './proxy-key.ts';
import { methods, type Typed, type TypedProblems } from './proxy-request.ts';
import type { Proxy } from './proxy-record.ts';
import { badge, consolePage, csrfField, may, notice, time } from './shell.ts';
import { pickerFields } from './token-picker.ts';
import type { Visit } from './visit.ts';

export type Tester = {
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

export const authBadge = ({ require_auth }: Proxy): Html =>
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

export const proxyPage = (visit: Visit, tester: Tester): string => {
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
