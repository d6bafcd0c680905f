// The form of an application: name, type, permissions, access rules as rows and as JSON, hosts, limits.
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { listPermissions, type Permission, permissions, publicPermissions } from '../access/permissions.ts';
import { CREATES_PER_MINUTE } from '../access/public-access.ts';
import { type Rights, summarizeRights } from '../access/rights-summary.ts';
import type { Session } from '../people/sessions.ts';
import { ends, permissionField, type TextField, type TypedApplication } from './application-record.ts';
import { boundInputs, boundOf } from './bound-fields.ts';
import {
  codeArea,
  echoGuardField,
  fieldProblem,
  type FieldProblems,
  findProblems,
  invalidAttributes,
  numberInput,
  selectField,
  textArea,
  textInput,
} from './forms.ts';
import { jobs } from './key-jobs.ts';
import {
  areRulesChosen,
  hasRows,
  isByText,
  RULE_ROWS_MAX,
  ruleField,
  type RuleRow,
  ruleScopes,
  ruleTransforms,
  tokenPermissions,
  type TypedRules,
  withEmptyRules,
} from './rule-rows.ts';
import { csrfField } from './shell.ts';

// The fields of access rules in the form of an application: a row for each rule, and the same rules as JSON.

/** `rulesLine`: the line of an error in the JSON. */
type RulesForm = { typed: TypedRules; problems: FieldProblems; rulesLine?: number | undefined };

const RULE_EXAMPLE = `[{ "priority": 1, "container": "/pci/", "transform": "mask", "permissions": ["token:read"] }]`;

const options = (choices: readonly (readonly [value: string, label: string])[], chosen: string): Html =>
  html`${choices.map(([value, label]) => html`<option value="${value}"${attribute('selected', value === chosen)}>${label}</option>`)}`;

const input = (index: number, part: string, value: string): Html =>
  html`<input name="${ruleField(index, part)}" value="${value}" autocomplete="off" autocapitalize="off" spellcheck="false">`;

/** A rule that no row can say. */
const keptRow = (row: RuleRow, index: number): Html =>
  html`<p>It has several conditions: it stays as it is, and is changed as JSON. <input type="hidden" name="${ruleField(index, 'kept')}" value="${row.kept}"></p>
<label class="check"><input type="checkbox" name="${ruleField(index, 'remove')}" value="yes">Remove this rule</label>`;

const openRow = (row: RuleRow, index: number, { problems }: RulesForm): Html => html`<div class="pairs">
<label>Tokens<select name="${ruleField(index, 'scope')}">${options(ruleScopes, row.scope)}</select></label>
<label>Container or id${input(index, 'value', row.value)}</label></div>
<div class="checks">${tokenPermissions.map(
  (permission) =>
    html`<label class="check"><input type="checkbox" name="${ruleField(index, permission)}" value="yes"${attribute('checked', row.permissions.has(permission))}>${permission.slice('token:'.length)}</label>`,
)}</div>
<div class="pairs"><label>Shows<select name="${ruleField(index, 'transform')}">${options(ruleTransforms, row.transform)}</select></label>
<label>Priority<small>1 is looked at first</small>${input(index, 'priority', row.priority)}</label></div>
<label>Description${input(index, 'description', row.description)}</label>
<details${attribute('open', boundOf(row.bound) !== undefined)}><summary>Where values may go</summary>
<p class="hint">For a rule with nothing but <code>use</code>. Every bound of a token holds too. Uses and amounts count for each token.</p>
${boundInputs(row.bound, problems, ruleField(index, ''))}</details>`;

const rowsFields = (form: RulesForm): Html =>
  html`<p class="hint">Permissions on some tokens, each with how much it shows. An empty rule is left out; each save gives two more. To remove a rule, empty its fields and boxes.</p>
${withEmptyRules(form.typed.rows).map(
  (row, index) =>
    html`<fieldset><legend>Rule ${index + 1}</legend>${row.kept === undefined ? openRow(row, index, form) : keptRow(row, index)}</fieldset>`,
)}`;

/** Open where there are rules or errors. */
const rulesField = (form: RulesForm): Html => {
  const { typed } = form;
  const problems = findProblems(form, 'rules');
  const ofText = isByText(typed) ? problems : [];
  const isTyped = isByText(typed) && (typed.rules.trim() !== '' || ofText.length > 0);
  return html`<details${attribute('open', areRulesChosen(typed) || problems.length > 0)}><summary>Access rules</summary>
${ofText.length === 0 && fieldProblem('rule-rows-problem', problems)}
${hasRows(typed) ? rowsFields(form) : html`<p class="hint">There are more than ${RULE_ROWS_MAX} rules: change them as JSON.</p>`}
<details${attribute('open', isTyped)}><summary>The same as JSON</summary>
<p class="hint">A list of rules. Change it here or above, not both. <code>transform</code> is <code>reveal</code>, <code>mask</code> or <code>redact</code>. For example <code>${RULE_EXAMPLE}</code></p>
<label for="rules">Rules</label>
${codeArea({ name: 'rules', text: typed.rules, line: form.rulesLine, problems: ofText, isShort: true })}</details></details>`;
};

export type ApplicationForm = {
  /** Undefined for a new one. */
  id: string | undefined;
  typed: TypedApplication;
  problems: FieldProblems;
  /** The line of an error in the rules. */
  rulesLine?: number | undefined;
};

/** A week has each kind of day. */
export const TRIED_DAYS = 7;

const types = [
  ['private', 'Private', 'A server of yours that keeps the key secret.'],
  ['public', 'Public', 'Browsers and apps, where anyone can read the key. It may create tokens, and nothing else.'],
  ['management', 'Management', 'A script that manages applications, reactors, proxies or people.'],
] as const;

export const typeLabel = (type: string): string => types.find(([name]) => name === type)?.[1] ?? type;

/** The permissions that the form of a type has. A new application may become any type. */
export const offeredPermissions = (id: string | undefined, type: string): readonly Permission[] =>
  id !== undefined && type === 'public' ? publicPermissions : permissions;

const typeChoice = (form: ApplicationForm): Html => {
  const sentences = findProblems(form, 'type');
  return html`<fieldset><legend>Type</legend>${types.map(
    ([name, label, hint]) =>
      html`<label class="check"><input type="radio" name="type" value="${name}"${attribute('checked', form.typed.type === name)}>${label}<small>${hint}</small></label>`,
  )}${fieldProblem('type-problem', sentences)}<p class="hint">The type cannot be changed later.</p></fieldset>`;
};

const checkbox = ({ typed }: ApplicationForm, type: Permission, description: string): Html =>
  html`<label class="check"><input type="checkbox" name="${permissionField(type)}" value="yes"${attribute('checked', typed.permissions.has(type))}><span class="mono">${type}</span><small>${description}</small></label>`;

const permissionChoice = (form: ApplicationForm): Html => {
  const offered = new Set(offeredPermissions(form.id, form.typed.type));
  const each = listPermissions().filter(({ type }) => offered.has(type));
  const ofTokens = each.filter(({ type }) => type.startsWith('token:'));
  const others = each.filter(({ type }) => !type.startsWith('token:'));
  const boxes = (listed: typeof each): Html =>
    html`<div class="checks">${listed.map(({ type, description }) => checkbox(form, type, description))}</div>`;
  const isOpen = others.some(({ type }) => form.typed.permissions.has(type));
  return html`<fieldset${invalidAttributes('permissions-problem', findProblems(form, 'permissions'))}><legend>Permissions</legend>
${fieldProblem('permissions-problem', findProblems(form, 'permissions'))}
<p class="hint">On all tokens of the tenant. An application needs one permission or one access rule.</p>
${boxes(ofTokens)}
${others.length > 0 && html`<details${attribute('open', isOpen)}><summary>Permissions to manage the vault</summary>${boxes(others)}</details>`}
</fieldset>`;
};

const jobChoice = (form: ApplicationForm): Html => {
  const sentences = findProblems(form, 'job');
  return html`<fieldset${invalidAttributes('job-problem', sentences)}><legend>What will it do?</legend><div class="jobs">${jobs.map(
    ([job, label, hint]) =>
      html`<label><input type="radio" name="job" value="${job}"${attribute('checked', form.typed.job === job)}><span>${label}<small>${hint}</small></span></label>`,
  )}</div>${fieldProblem('job-problem', sentences)}</fieldset>`;
};

/** What every new key is asked for, and what a custom one chooses beside it. */
const newKeyFields = (form: ApplicationForm): Html => html`${jobChoice(form)}
<div class="pairs">${textInput(form, { name: 'container', label: 'Which tokens', hint: html`A container, such as <code>/pci/</code>. Empty: all tokens, or by type where it only stores` })}
${selectField(form, { name: 'ends', label: 'Ends', options: ends })}</div>
${textArea(form, { name: 'allowed_addresses', label: 'Only from', hint: 'IP addresses or networks that may use the key, one on each line. Empty: all.' })}
<div class="custom">${typeChoice(form)}
${permissionChoice(form)}
${rulesField(form)}</div>`;

const LIVE_FORM = 'new-key';

/** What the typed rights mean. Without script a button asks for it; a script asks while one types. */
export const rightsCard = (rights: Rights | undefined, isLive: boolean): Html => {
  const list = (kind: string, sentences: readonly string[]): Html =>
    sentences.length === 0
      ? html`<p class="quiet">nothing</p>`
      : html`<ul class="rights ${kind}">${sentences.map((each) => html`<li><bdi>${each}</bdi></li>`)}</ul>`;
  const { can, cannot } = rights ? summarizeRights(rights) : { can: [], cannot: [] };
  const sentences = rights
    ? html`<h2>This key can</h2>${list('can', can)}<h2>It cannot</h2>${list('cannot', cannot)}`
    : html`<h2>This key</h2><p class="quiet">The container, a limit or the rules are not complete.</p>`;
  return html`<section class="card"><div id="rights"${isLive && html` data-live="${LIVE_FORM}" aria-live="polite"`}>${sentences}</div>
${isLive && html`<button class="second small" form="${LIVE_FORM}" formaction="/console/applications/check" data-check>Check</button>`}</section>`;
};

const DEFAULT_LIMIT = "Empty: the operator's default, or no limit.";

const limitsCard = (form: ApplicationForm): Html => html`<section class="card"><h2>Limits</h2>
<p class="hint">${DEFAULT_LIMIT}</p>
<div class="pairs">${numberInput(form, { name: 'requests_per_second', label: 'Requests per second', hint: 'In the long run' })}
${numberInput(form, { name: 'burst', label: 'Burst', hint: 'Requests at once after a pause' })}
${numberInput(form, { name: 'daily_reveals', label: 'Reveals a day', hint: 'Tokens whose value it may get' })}
${numberInput(form, { name: 'daily_uses', label: 'Uses a day', hint: 'Tokens it may use in code and by the proxy' })}</div>
${textArea(form, { name: 'allowed_hosts', label: 'Allowed hosts', hint: html`Where it may send to through the proxy, one host on each line. Empty: any host.` })}
${echoGuardField(form)}
</section>`;

const publicNames: readonly TextField[] = ['allowed_origins', 'creates_per_minute'];

const publicFields = (form: ApplicationForm): Html =>
  html`${textArea(form, { name: 'allowed_origins', label: 'Allowed origins', hint: html`Of the pages that may use the key, one on each line: <code>https://shop.example.com</code>. Empty: no page, only clients that send no Origin.` })}
<div class="pairs">${form.id !== undefined && textInput(form, { name: 'container', label: 'Container', hint: html`Of its tokens, such as <code>/pci/high/</code>. Empty: by type` })}
${numberInput(form, { name: 'creates_per_minute', label: 'Creates a minute', hint: `Tokens of one client address. Empty: ${CREATES_PER_MINUTE}` })}</div>`;

/** Only public applications have these; a new one may become public. */
const publicCard = (form: ApplicationForm): Html | undefined => {
  const { id, typed } = form;
  const isPublic = typed.type === 'public';
  if (id !== undefined)
    return isPublic ? html`<section class="card"><h2>Public use</h2>${publicFields(form)}</section>` : undefined;
  const isOpen = isPublic || publicNames.some((name) => typed[name] !== '' || findProblems(form, name).length > 0);
  return html`<details class="card"${attribute('open', isOpen)}><summary>Public applications: origins</summary>
<p class="hint">For keys that collect in a browser.</p>${publicFields(form)}</details>`;
};

/** The whole form, with the button that sends it. */
export const applicationForm = (session: Session, form: ApplicationForm): Html => {
  const { id, typed } = form;
  return html`<form method="post" action="/console/applications/${id ?? 'new'}" autocomplete="off" novalidate${id === undefined && html` id="${LIVE_FORM}"`}>
${csrfField(session)}${
    id === undefined
      ? html`<input type="hidden" name="form_id" value="${typed.form_id}">`
      : html`<input type="hidden" name="seen" value="${typed.seen}">`
  }
<section class="card">${textInput(form, { name: 'name', label: 'Name', more: html` required maxlength="400"` })}
${id === undefined ? newKeyFields(form) : html`${permissionChoice(form)}${typed.type !== 'public' && rulesField(form)}`}</section>
${publicCard(form)}
${limitsCard(form)}
<div class="actions"><button>${id === undefined ? 'Create application' : 'Save'}</button>${id !== undefined && typed.type !== 'public' && html`<button class="second" name="do" value="try">Try on the last ${TRIED_DAYS} days</button>`}<a href="/console/applications">Cancel</a></div>
</form>`;
};
