// The settings page: the name of the tenant and each of its settings by form, for roles that change them; a list for others.
import { AppError } from '../../platform/base/errors.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { BOUND_NAMES_MAX } from '../access/bounds.ts';
import { DELEGATED_CONTAINER, DELEGATED_PROBLEM, delegatedPaymentsOf } from '../access/delegated-payments.ts';
import { SETTINGS_MAX } from '../access/tenants.routes.ts';
import { findNames, listNames, type NamedRow } from '../logs/name-rows.ts';
import { copyMenu } from './copy.ts';
import {
  ECHO_GUARD_LABEL,
  fieldOfPair,
  fieldProblem,
  type FieldProblems,
  findProblems,
  invalidAttributes,
  linesAbove,
  linesOf,
  listOfLines,
  LOOK,
  type Pair,
  pairsFields,
  type PairsOf,
  pairsOf,
  problemsByPlace,
  problemsNotice,
  problemsOfPairs,
  readPairs,
  recordOfPairs,
  selectField,
  textArea,
  textInput,
  uuid,
} from './forms.ts';
import { isolated, shortened } from './list-parts.ts';
import { addressOf, consolePage, csrfField, may, notice, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  isSuccess,
  type Outcome,
  SIGN_IN_PATH,
  type Submission,
  type Visit,
} from './visit.ts';

// The fields of the tenant setting `delegated_payments`: the proxies that charge cards of agents, where these are kept, and who signs.

/** The name of the setting. */
const DELEGATED = 'delegated_payments';

/** Proxies that the form offers, the newest, beside those that are chosen. */
const OFFERED_MAX = 50;

/** `signing_keys`: one on each line. */
type Delegated = { proxies: readonly string[]; container: string; signing_keys: string };

const fieldOf = (name: keyof Delegated) => `delegated.${name}` as const;

/** A box has its number in its name and its proxy as its value: what is ticked is read without the list. */
const boxOf = (index: number): string => `${fieldOf('proxies')}.${index}`;

/** @param text of the setting; undefined for none. */
const delegatedOf = (text: string | undefined): Delegated => {
  const isThere = text !== undefined && delegatedPaymentsOf({ [DELEGATED]: text }) !== undefined;
  const stored = (isThere ? JSON.parse(text) : {}) as {
    proxies?: string[];
    container?: string;
    signing_keys?: string[];
  };
  const { proxies = [], container = '', signing_keys = [] } = stored;
  return { proxies, container, signing_keys: signing_keys.join('\n') };
};

const readDelegated = (field: (name: string) => string): Delegated => ({
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
const textOfDelegated = (typed: Delegated, stored: string | undefined): string | undefined => {
  const text = settingOf(typed);
  return stored !== undefined && settingOf(delegatedOf(stored)) === text ? stored : text;
};

/** The field that a sentence of the API is about, and what it says of it. */
const problemOfDelegated = (sentence: string): [field: string, sentence: string] => {
  const [, name = '', rest = ''] = DELEGATED_PROBLEM.exec(sentence) ?? [];
  return name === '' ? ['', `${DELEGATED} ${sentence}`] : [`delegated.${name}`, rest];
};

/** The proxies that the form offers: those of the setting, and the newest. */
const findOffered = async (visit: Visit, { proxies }: Delegated): Promise<NamedRow[]> => {
  const db = visit.ctx.db.for(visit.session);
  const ids = proxies.filter((id) => uuid.test(id));
  const [newest, named] = await Promise.all([
    listNames(db, 'proxy', OFFERED_MAX),
    ids.length === 0 ? [] : findNames(db, 'proxy', ids),
  ]);
  const chosen = proxies.map((id) => named.find((each) => each.id === id) ?? { id, name: id });
  return [...chosen, ...newest.filter(({ id }) => !proxies.includes(id))];
};

const delegatedFields = (
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
const delegatedLine = ({ proxies }: Delegated, offered: readonly NamedRow[]): Html =>
  proxies.length === 0
    ? html`Are not taken`
    : html`Charged through ${offered.slice(0, proxies.length).map(({ name }, index) => html`${index > 0 && ', '}${isolated(name)}`)}`;

const SETTINGS_PATH = '/console/settings';

const TENANT = '/tenants/self';

const DELETE_PATH = `${SETTINGS_PATH}/delete`;

type Tenant = {
  id: string;
  name: string;
  settings: Record<string, string>;
  created_at: string;
  modified_at?: string;
};

/** Settings that the vault knows, with their choices. An empty choice leaves the setting out; `usual` is stored and means the same. */
const KNOWN = [
  {
    name: 'require_second_factor',
    usual: undefined,
    label: 'Second factor of members',
    hint: 'A member who needs one and has no device sets it up at the next page. API keys need none, and can only make this stricter.',
    options: [
      ['', 'As the server says'],
      ['true', 'All members need one'],
      ['false', 'No member needs one'],
    ],
  },
  {
    name: 'reveal_reason',
    usual: 'off',
    label: 'A reason to reveal a value',
    hint: 'What members see of a value in the console. API keys give none, and can only make this stricter.',
    options: [
      ['', 'Is not asked for'],
      ['required', 'Is asked for, and kept in the log'],
    ],
  },
  {
    name: 'deduplicate_token',
    usual: 'false',
    label: 'Equal values',
    hint: 'What holds for a request that does not say it',
    options: [
      ['', 'Each gets a token of its own'],
      ['true', 'Share a token'],
    ],
  },
  {
    name: 'absent_paths',
    usual: 'error',
    label: 'A path that a token does not have',
    hint: 'What an expression gives for it',
    options: [
      ['', 'An error'],
      ['null', 'Null'],
    ],
  },
  {
    name: 'echo_guard',
    usual: 'off',
    label: ECHO_GUARD_LABEL,
    hint: 'What holds for proxies, reactors and applications that do not say it',
    options: [
      ['', 'Pass as they are'],
      ['mask', 'Mask them'],
      ['block', 'Block the answer'],
    ],
  },
] as const;

type KnownName = (typeof KNOWN)[number]['name'];

/** Clients of the earlier API use this name. A tenant that has it keeps it. */
const EARLIER_NAME = 'deduplicate_tokens';

const knownNames: ReadonlySet<string> = new Set([...KNOWN.map(({ name }) => name), EARLIER_NAME, DELEGATED]);

type TextField = 'name' | KnownName | 'seen';

/** `rows`: settings that the vault stores for its clients. */
type SettingsForm = {
  typed: Record<TextField, string>;
  delegated: Delegated;
  rows: Pair[];
  problems: FieldProblems;
};

const ROWS: PairsOf = { what: 'setting', max: SETTINGS_MAX };

/** The version of the settings, so that changes of others are not overwritten. */
const seenOf = ({ modified_at, created_at }: Tenant): string => modified_at ?? created_at;

const storedName = (name: KnownName, { settings }: Tenant): string =>
  name === 'deduplicate_token' && settings[name] === undefined && settings[EARLIER_NAME] !== undefined
    ? EARLIER_NAME
    : name;

const formOf = (tenant: Tenant): SettingsForm => {
  const known = KNOWN.map(({ name, usual }) => {
    const stored = tenant.settings[storedName(name, tenant)];
    return [name, stored === undefined || stored === usual ? '' : stored] as const;
  });
  return {
    typed: {
      ...(Object.fromEntries(known) as Record<KnownName, string>),
      name: tenant.name,
      seen: seenOf(tenant),
    },
    delegated: delegatedOf(tenant.settings[DELEGATED]),
    rows: pairsOf(tenant.settings).filter(({ name }) => !knownNames.has(name)),
    problems: new Map(),
  };
};

const readForm = (field: (name: string) => string): SettingsForm => {
  const known = KNOWN.map(({ name }) => [name, field(name)] as const);
  return {
    typed: {
      ...(Object.fromEntries(known) as Record<KnownName, string>),
      name: field('name').trim(),
      seen: field('seen'),
    },
    delegated: readDelegated(field),
    rows: readPairs(field, ROWS),
    problems: new Map(),
  };
};

const bodyOfForm = ({ typed, delegated, rows }: SettingsForm, tenant: Tenant) => {
  const known = KNOWN.map(({ name, usual = '' }) => {
    const place = storedName(name, tenant);
    return [place, typed[name] === '' && tenant.settings[place] === usual ? usual : typed[name]] as const;
  });
  const cards = textOfDelegated(delegated, tenant.settings[DELEGATED]);
  return {
    name: typed.name,
    settings: {
      ...Object.fromEntries(known.filter(([, value]) => value !== '')),
      ...(cards !== undefined && { [DELEGATED]: cards }),
      ...recordOfPairs(rows, tenant.settings),
    },
  };
};

/** The API's errors by field of the form. */
const problemsOf = ({ rows }: SettingsForm, answer: ApiAnswer): FieldProblems => {
  const problems = new Map<string, string[]>();
  const add = (field: string, lines: readonly string[]) =>
    problems.set(field, [...(problems.get(field) ?? []), ...lines]);
  for (const [place, sentences] of problemsByPlace(answer)) {
    const name = place.replace(/^settings\./, '');
    if (name === DELEGATED) {
      for (const [field, line] of sentences.map(problemOfDelegated)) add(field, [line]);
      continue;
    }
    const known = name === 'name' || knownNames.has(name) ? name.replace(EARLIER_NAME, 'deduplicate_token') : '';
    const field = fieldOfPair(rows, ROWS, name) ?? known;
    add(field, field === '' ? sentences.map((each) => `${place} ${each}`) : sentences);
  }
  return problems;
};

const otherSettings = (form: SettingsForm): Html =>
  html`<details class="card"${attribute('open', form.rows.length > 0)}><summary>Other settings</summary>
<p class="hint">Texts that the vault stores for clients, and does not read: at most ${SETTINGS_MAX}. A row without name and value is left out; each save gives two more.</p>
${pairsFields(form, form.rows, ROWS)}</details>`;

const settingsForm = ({ session }: Visit, form: SettingsForm, offered: readonly NamedRow[]): Html =>
  html`<form method="post" action="${SETTINGS_PATH}" autocomplete="off" novalidate>${csrfField(session)}<input type="hidden" name="seen" value="${form.typed.seen}">
<section class="card">
${textInput(form, { name: 'name', label: 'Name', more: html` required maxlength="400"` })}
${KNOWN.map((setting) => selectField<TextField>(form, setting))}
${delegatedFields(form, offered)}
</section>
${otherSettings(form)}
<div class="actions"><button>Save</button></div></form>`;

const choiceOf = ({ options }: (typeof KNOWN)[number], value: string): string =>
  options.find(([each]) => each === value)?.[1] ?? value;

/** For a role that changes nothing. */
const settingsList = ({ typed, delegated, rows }: SettingsForm, offered: readonly NamedRow[]): Html =>
  html`<section class="card"><h2>Settings</h2><dl><dt>Name</dt><dd>${isolated(typed.name)}</dd>
${KNOWN.map((setting) => html`<dt>${setting.label}</dt><dd>${choiceOf(setting, typed[setting.name])}</dd>`)}
<dt>Cards from agents</dt><dd>${delegatedLine(delegated, offered)}</dd>
${rows.map(({ name, value }) => html`<dt>${isolated(name)}</dt><dd>${isolated(value)}</dd>`)}</dl></section>`;

/** Typed, because nothing brings a tenant back. */
const deleteForm = ({ session }: Visit, { name }: Tenant, problem: string | undefined): Html => {
  const sentences = problem === undefined ? [] : [problem];
  return html`<details class="card"${attribute('open', problem !== undefined)}><summary>Delete this tenant</summary>
<p>All tokens, applications, keys, code, proxies and members are gone at once, and nothing decrypts what was stored. The log of the tenant stays with the operator.</p>
<form method="post" action="${DELETE_PATH}" autocomplete="off">${csrfField(session)}<label>To delete it, type its name: <bdi>${name}</bdi><input name="typed" required maxlength="400" autocomplete="off"${invalidAttributes('typed-problem', sentences)}>${fieldProblem('typed-problem', sentences)}</label><button class="danger">Delete the tenant</button></form></details>`;
};

const settingsPage = async (
  visit: Visit,
  tenant: Tenant,
  form: SettingsForm,
  above?: HtmlValue,
  deletion?: string,
): Promise<string> => {
  const offered = await findOffered(visit, form.delegated);
  const mayChange = may(visit.session, 'tenant:update');
  return consolePage(visit.session, {
    title: 'Settings',
    section: 'Settings',
    main: html`<h1>Settings</h1>
${copyMenu(visit, { id: tenant.id, call: { path: TENANT } })}
${visit.query('done') === 'saved' && notice('good', 'The settings were saved. They take effect now.')}${above}
<div class="columns"><div>${mayChange ? settingsForm(visit, form, offered) : settingsList(form, offered)}</div>
<div><section class="card"><h2>Record</h2><dl><dt>Id</dt><dd>${shortened(tenant.id)}</dd><dt>Created</dt><dd>${time(tenant.created_at)}</dd>
${tenant.modified_at !== undefined && html`<dt>Changed</dt><dd>${time(tenant.modified_at)}</dd>`}</dl>
${mayChange && html`<p><a href="/console/single-sign-on">Single sign-on</a></p>`}</section>
${may(visit.session, 'tenant:delete') && deleteForm(visit, tenant, deletion)}</div></div>`,
  });
};

const readTenant = async (visit: Visit): Promise<Tenant> =>
  bodyOf<Tenant>(await visit.api({ method: 'GET', url: TENANT }));

const save = async (submission: Submission): Promise<Outcome> => {
  const tenant = await readTenant(submission);
  const form = readForm(submission.field);
  if (form.typed.seen !== seenOf(tenant)) {
    const sentence =
      'The settings were changed since the page was opened. Your changes are below and are not saved. Save again to overwrite the other changes.';
    const current = { ...form, typed: { ...form.typed, seen: seenOf(tenant) } };
    return { status: 409, page: await settingsPage(submission, tenant, current, notice('warn', sentence)) };
  }
  const refuse = async (status: number, problems: FieldProblems, lines: readonly string[]): Promise<Outcome> => {
    const above = problemsNotice('The settings were not saved.', lines);
    return { status, page: await settingsPage(submission, tenant, { ...form, problems }, above) };
  };
  const found = problemsOfPairs(form.rows, ROWS, knownNames);
  if (found.size > 0) return refuse(422, found, [LOOK]);
  const answer = await submission.api({ method: 'PUT', url: TENANT, json: bodyOfForm(form, tenant) });
  if (isSuccess(answer)) return { seeOther: addressOf(SETTINGS_PATH, { done: 'saved' }) };
  const problems = problemsOf(form, answer);
  return refuse(answer.status, problems, linesAbove(problems, answer));
};

export const settingsPages = (console: Console): void => {
  console.get(SETTINGS_PATH, async (visit) => {
    const tenant = await readTenant(visit);
    return settingsPage(visit, tenant, formOf(tenant));
  });
  console.postAfterCode(SETTINGS_PATH, save, ['name']);
  console.get(DELETE_PATH, async () => ({ seeOther: SETTINGS_PATH }));
  console.postAfterCode(DELETE_PATH, async (submission): Promise<Outcome> => {
    if (!may(submission.session, 'tenant:delete'))
      throw new AppError('forbidden', 'Your role does not delete the tenant.');
    const tenant = await readTenant(submission);
    if (submission.field('typed').trim() !== tenant.name) {
      const problem = 'This is not its name. Nothing was deleted.';
      return { status: 422, page: await settingsPage(submission, tenant, formOf(tenant), undefined, problem) };
    }
    bodyOf(await submission.api({ method: 'DELETE', url: TENANT }));
    return { seeOther: SIGN_IN_PATH };
  });
};
