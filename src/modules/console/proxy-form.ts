// The form that makes, changes and deletes a stored proxy: every attribute has a field of its own.
import { TIMEOUT_SECONDS } from '../../platform/base/times.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { ELEMENTS_MAX } from '../code/formula-fields.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { KEPT_STATUSES } from '../proxy/code-rule.ts';
import {
  checkField,
  codeArea,
  echoGuardField,
  fieldProblem,
  findProblems,
  invalidAttributes,
  numberInput,
  selectField,
  textArea,
  textInput,
  typedText,
} from './forms.ts';
import { isolated, namesOf } from './list-parts.ts';
import {
  bodyOfProxyForm,
  type ConfigurationRow,
  configurationTypes,
  formOfProxy,
  keptFields,
  problemsOfProxyForm,
  type Proxy,
  type ProxyForm,
  readProxyForm,
  rowField,
  withEmptyRows,
} from './proxy-record.ts';
import { lineOf } from './reactor-actions.ts';
import { deletePages, editPages, type Frame, type Kind, newPages, type RecordForm } from './resource-pages.ts';
import { consolePage, time } from './shell.ts';
import type { Console, Visit } from './visit.ts';

const codeRuleFields = (form: ProxyForm): Html => html`<fieldset><legend>Security codes</legend>
${selectField(form, {
  name: 'cvc_until',
  label: 'A code that is sent',
  options: [
    ['', 'Lives to the end of its time'],
    ['answered', 'Goes when the answer has come'],
  ],
})}
<details><summary>Answers that keep it</summary>
${textInput(form, { name: 'cvc_statuses', label: 'Statuses', hint: `Empty: ${KEPT_STATUSES.join(', ')}`, more: html` inputmode="numeric"` })}
${textInput(form, { name: 'cvc_path', label: 'Place in the answer', hint: html`For processors that decline with 200, such as <code>$.decline.type</code>` })}
${textArea(form, { name: 'cvc_equals', label: 'Values there', hint: html`One on each line, such as <code>soft</code>` })}
</details></fieldset>`;

const amountFields = (form: ProxyForm): Html => html`<fieldset><legend>Amounts</legend>
<p class="hint">Where a request has its amount. Values with an allowance pass only through a proxy that says so.</p>
${textInput(form, { name: 'amount_value', label: 'Place of the amount', hint: html`Such as <code>$.amount</code>. Empty: none.` })}
${textInput(form, { name: 'amount_currency', label: 'Place of the currency', hint: html`Such as <code>$.currency</code>` })}
${selectField(form, {
  name: 'amount_unit',
  label: 'Unit of the amount',
  options: [
    ['minor', 'Minor units, such as cents'],
    ['major', 'Units of the currency'],
  ],
})}
${textInput(form, { name: 'amount_merchant', label: 'Place of the merchant', hint: 'Empty: not compared' })}
</fieldset>`;

const destinationCard = (form: ProxyForm, applications: readonly NamedRow[]): Html => html`<section class="card">
${textInput(form, { name: 'name', label: 'Name', more: html` required maxlength="400"` })}
${textInput(form, { name: 'destination_url', label: 'Destination', hint: 'Path and query of a request are added to it', more: html` type="url" required placeholder="https://api.example.com/v1"` })}
${textArea(form, { name: 'allowed_hosts', label: 'Allowed hosts', hint: html`Where it may send to, one host on each line, such as <code>api.example.com</code>. Empty: any host.` })}
${numberInput(form, { name: 'timeout_seconds', label: 'Timeout in seconds', hint: `For the head of a response: ${TIMEOUT_SECONDS.least} to ${TIMEOUT_SECONDS.most}` })}
${echoGuardField(form)}
${codeRuleFields(form)}
${amountFields(form)}
${textInput(form, { name: 'idempotency_header', label: 'Header of the idempotency key', hint: html`For a key of one request, such as <code>Idempotency-Key</code>. Empty: none.` })}
<fieldset><legend>Callers</legend>
${checkField(form, { name: 'is_open', label: 'No API key needed', hint: 'Who has the key of the proxy may use it, with the rights of its application.' })}
${checkField(form, { name: 'is_literal', label: 'Expressions off', hint: 'Braces in requests are data, such as in webhooks of other systems.' })}
${selectField(form, { name: 'application_id', label: 'Application', hint: 'Whose rights its code has, and callers without an API key', options: [['', 'none'], ...applications.map(({ id, name }) => [id, name] as const)] })}
</fieldset></section>`;

const configurationRow = (form: ProxyForm, { name, type, value }: ConfigurationRow, index: number): Html => {
  const [nameField, typeField, valueField] = (['name', 'type', 'value'] as const).map((part) => rowField(index, part));
  const of = (field = ''): readonly string[] => findProblems(form, field);
  const problems = [...of(nameField).map((each) => `Name ${each}.`), ...of(valueField).map((each) => `Value ${each}.`)];
  const problem = `configuration-${index}-problem`;
  const about = `${index + 1} of the configuration`;
  return html`<div class="triple"><input class="mono" name="${nameField}" value="${name}" aria-label="Name ${about}" placeholder="API_KEY" autocomplete="off" spellcheck="false"${of(nameField).length > 0 && invalidAttributes(problem, problems)}>
<select name="${typeField}" aria-label="Type ${about}">${configurationTypes.map((each) => html`<option${attribute('selected', each === type)}>${each}</option>`)}</select>
<textarea class="code line" rows="1" name="${valueField}" aria-label="Value ${about}" autocomplete="off" spellcheck="false"${of(valueField).length > 0 && invalidAttributes(problem, problems)}>${typedText(value)}</textarea></div>
${fieldProblem(problem, problems)}`;
};

const configurationCard = (form: ProxyForm): Html => html`<section class="card"><h2>Configuration</h2>
<p class="hint">Values for the transforms, such as keys of the destination. They are encrypted at rest. A row without name and value is left out; each save gives two more, up to ${ELEMENTS_MAX}.</p>
${withEmptyRows(form.rows).map((row, index) => configurationRow(form, row, index))}</section>`;

const code = (
  form: ProxyForm,
  name: 'request_transform' | 'response_transform',
  label: string,
  hint: HtmlValue,
): Html => {
  const problems = findProblems(form, name);
  return html`<label for="${name}">${label}</label><p class="hint">${hint}</p>
${codeArea({ name, text: form.typed[name], line: lineOf(problems), problems, isShort: true })}`;
};

const transformsCard = (form: ProxyForm): Html => {
  const isOpen = (['request_transform', 'response_transform', 'expression', 'replacement'] as const).some(
    (name) => findProblems(form, name).length > 0 || (name !== 'replacement' && form.typed[name] !== ''),
  );
  const sample = 'module.exports = async ({ args }) => ({ body: args.body, headers: args.headers });';
  return html`<details class="card"${attribute('open', isOpen)}><summary>Transforms</summary>
${code(form, 'request_transform', 'Code for requests', html`Runs after values stand in place of expressions. Empty: none. For example <code>${sample}</code>`)}
${code(form, 'response_transform', 'Code for responses', 'Returns what the caller gets. Empty: none.')}
<fieldset><legend>Or mask responses</legend><div class="pairs">
${textInput(form, { name: 'expression', label: 'What to replace', hint: html`A regular expression, such as <code>[0-9]{12,15}(?=[0-9]{4})</code>` })}
${textInput(form, { name: 'replacement', label: 'By', hint: 'The text in place of each match' })}</div></fieldset></details>`;
};

const certificateCard = (form: ProxyForm): Html => {
  const stored = form.proxy?.client_certificate;
  const isOpen = findProblems(form, 'certificate').length + findProblems(form, 'private_key').length > 0;
  return html`<details class="card"${attribute('open', isOpen)}><summary>Client certificate</summary>
<p class="hint">For destinations that ask for one. ${stored ? html`There is one until ${time(stored.expires_at)}. It stays if both fields are empty.` : 'Empty: none.'}</p>
${textArea(form, { name: 'certificate', label: 'Certificate', hint: 'PEM, with intermediate certificates after it', rows: 4 })}
${textArea(form, { name: 'private_key', label: 'Private key', hint: 'PEM, not encrypted. It is never shown again.', rows: 4 })}
${stored && checkField(form, { name: 'no_certificate', label: 'Remove the certificate' })}</details>`;
};

/** @param applications that the form offers. */
const proxyFormPage = (
  { session }: Pick<Visit, 'session'>,
  form: ProxyForm,
  applications: readonly NamedRow[],
  { hidden, above }: Frame,
): string => {
  const { proxy } = form;
  const path = proxy ? `/console/proxies/${proxy.id}` : '/console/proxies';
  const title = proxy ? `Change ${proxy.name}` : 'New proxy';
  return consolePage(session, {
    title,
    section: 'Proxies',
    main: html`<p class="quiet">${proxy ? html`<a href="${path}">${isolated(proxy.name)}</a>` : html`<a href="${path}">Proxies</a>`}</p>
<h1>${isolated(title)}</h1>${above}
<form method="post" action="${proxy ? `${path}/edit` : `${path}/new`}" autocomplete="off" novalidate>${hidden}
${destinationCard(form, applications)}
${configurationCard(form)}
${transformsCard(form)}
${certificateCard(form)}
<div class="actions"><button>${proxy ? 'Save' : 'Create proxy'}</button><a href="${path}">Cancel</a></div></form>`,
  });
};

// The pages that make, change and delete a stored proxy, by the API.

export const KIND: Kind = { path: '/console/proxies', url: '/proxies', section: 'Proxies', noun: 'proxy' };

/** Applications that the form names, the newest first. */
const APPLICATIONS_MAX = 100;

const show = async (visit: Visit, form: ProxyForm, frame: Frame): Promise<string> => {
  const applications = await listNames(visit.ctx.db.for(visit.session), 'application', APPLICATIONS_MAX);
  const id = form.proxy?.application_id;
  if (id !== undefined && !applications.some((each) => each.id === id))
    applications.push({ id, name: (await namesOf(visit, [id])).get(id) ?? id });
  return proxyFormPage(visit, form, applications, frame);
};

const proxyForm: RecordForm<Proxy, ProxyForm> = {
  permission: 'proxy:update',
  keeps: keptFields,
  // The form has the values of the configuration, which may be keys of other services.
  isSecret: true,
  // The member gives the rights of the application to callers and code, and holds all of them.
  withAllGrants: true,
  open: formOfProxy,
  read: ({ field }, proxy) => readProxyForm(proxy, field),
  show,
  toBody: bodyOfProxyForm,
  toProblems: problemsOfProxyForm,
};

export const proxySavePages = (console: Console): void => {
  newPages(console, KIND, proxyForm);
  editPages(console, KIND, proxyForm);
  deletePages(console, KIND);
};
