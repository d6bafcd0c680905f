// The fields of the tenant setting `delegated_payments`: the proxies that charge cards of agents, where these are kept, and who signs.
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { BOUND_NAMES_MAX } from '../access/bounds.ts';
import { DELEGATED_CONTAINER, DELEGATED_PROBLEM, delegatedPaymentsOf } from '../access/delegated-payments.ts';
import { findNames, listNames, type NamedRow } from '../logs/name-rows.ts';
import { type FieldProblems, findProblems, listOfLines, textArea, textInput } from './form-fields.ts';
import { fieldProblem, invalidAttributes, linesOf, uuid } from './forms.ts';
import { isolated } from './list-parts.ts';
import type { Visit } from './visit.ts';

/** The name of the setting. */
export const DELEGATED = 'delegated_payments';

/** Proxies that the form offers, the newest, beside those that are chosen. */
const OFFERED_MAX = 50;

/** `signing_keys`: one on each line. */
export type Delegated = { proxies: readonly string[]; container: string; signing_keys: string };

const fieldOf = (name: keyof Delegated) => `delegated.${name}` as const;

/** A box has its number in its name and its proxy as its value: what is ticked is read without the list. */
const boxOf = (index: number): string => `${fieldOf('proxies')}.${index}`;

/** @param text of the setting; undefined for none. */
export const delegatedOf = (text: string | undefined): Delegated => {
  const isThere = text !== undefined && delegatedPaymentsOf({ [DELEGATED]: text }) !== undefined;
  const stored = (isThere ? JSON.parse(text) : {}) as {
    proxies?: string[];
    container?: string;
    signing_keys?: string[];
  };
  const { proxies = [], container = '', signing_keys = [] } = stored;
  return { proxies, container, signing_keys: signing_keys.join('\n') };
};

export const readDelegated = (field: (name: string) => string): Delegated => ({
  proxies: Array.from({ length: OFFERED_MAX + BOUND_NAMES_MAX }, (_, index) => field(boxOf(index))).filter(Boolean),
  container: field(fieldOf('container')).trim(),
  signing_keys: linesOf(field(fieldOf('signing_keys'))),
});

const settingOf = ({ proxies, container, signing_keys }: Delegated): string | undefined => {
  const keys = listOfLines(signing_keys);
  if (proxies.length === 0 && container === '' && !keys) return undefined;
  return JSON.stringify({ proxies, ...(container !== '' && { container }), ...(keys && { signing_keys: keys }) });
};

/** The setting; undefined for none. One that says the same stays as it is stored. */
export const textOfDelegated = (typed: Delegated, stored: string | undefined): string | undefined => {
  const text = settingOf(typed);
  return stored !== undefined && settingOf(delegatedOf(stored)) === text ? stored : text;
};

/** The field that a sentence of the API is about, and what it says of it. */
export const problemOfDelegated = (sentence: string): [field: string, sentence: string] => {
  const [, name = '', rest = ''] = DELEGATED_PROBLEM.exec(sentence) ?? [];
  return name === '' ? ['', `${DELEGATED} ${sentence}`] : [`delegated.${name}`, rest];
};

/** The proxies that the form offers: those of the setting, and the newest. */
export const findOffered = async (visit: Visit, { proxies }: Delegated): Promise<NamedRow[]> => {
  const db = visit.ctx.db.for(visit.session);
  const ids = proxies.filter((id) => uuid.test(id));
  const [newest, named] = await Promise.all([
    listNames(db, 'proxy', OFFERED_MAX),
    ids.length === 0 ? [] : findNames(db, 'proxy', ids),
  ]);
  const chosen = proxies.map((id) => named.find((each) => each.id === id) ?? { id, name: id });
  return [...chosen, ...newest.filter(({ id }) => !proxies.includes(id))];
};

export const delegatedFields = (
  form: { delegated: Delegated; problems: FieldProblems },
  offered: readonly NamedRow[],
): Html => {
  const { proxies, container, signing_keys } = form.delegated;
  const fields = {
    typed: { 'delegated.container': container, 'delegated.signing_keys': signing_keys },
    problems: form.problems,
  };
  const problem = `${fieldOf('proxies')}-problem`;
  const sentences = findProblems(form, fieldOf('proxies'));
  return html`<fieldset${invalidAttributes(problem, sentences)}><legend>Cards from agents</legend>
<p class="hint">Agents hand over cards by the Agentic Commerce Protocol where a proxy is ticked: that proxy charges them. It needs to say where its requests have their amount.</p>
${offered.length === 0 && html`<p class="quiet">There is no proxy yet.</p>`}
<div class="checks">${offered.map(
    ({ id, name }, index) =>
      html`<label class="check"><input type="checkbox" name="${boxOf(index)}" value="${id}"${attribute('checked', proxies.includes(id))}>${isolated(name)}</label>`,
  )}</div>${fieldProblem(problem, sentences)}
${textInput(fields, { name: 'delegated.container', label: 'Container of these cards', hint: html`Empty: <code>${DELEGATED_CONTAINER}</code>` })}
${textArea(fields, { name: 'delegated.signing_keys', label: 'Keys of agents', hint: 'Ed25519 public keys in base64url, one on each line. With one, each request needs a signature.' })}
</fieldset>`;
};

/** For a role that changes nothing. */
export const delegatedLine = ({ proxies }: Delegated, offered: readonly NamedRow[]): Html =>
  proxies.length === 0
    ? html`Are not taken`
    : html`Charged through ${offered.slice(0, proxies.length).map(({ name }, index) => html`${index > 0 && ', '}${isolated(name)}`)}`;
