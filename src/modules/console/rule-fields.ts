// The fields of access rules in the form of an application: a row for each rule, and the same rules as JSON.
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { boundInputs, boundOf } from './bound-fields.ts';
import { type FieldProblems, findProblems } from './form-fields.ts';
import { codeArea, fieldProblem } from './forms.ts';
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
export const rulesField = (form: RulesForm): Html => {
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
