// The page of an application: its form, its API keys and its deletion, and the pages that make, change and revoke a key.
import { notFound } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { KEY_VARIABLE } from '../../platform/http/request-samples.ts';
import type { Rights } from '../access/rights-summary.ts';
import type { Session } from '../people/sessions.ts';
import { type ApplicationForm, applicationForm, rightsCard, typeLabel } from './application-form.ts';
import { type Application, bodyOfForm } from './application-record.ts';
import { copyBox, copyMenu, samplesFor } from './copy.ts';
import {
  confirmed,
  type Fields,
  graceField,
  idOf,
  isReplayed,
  linesOf,
  listOfLines,
  LOOK,
  onceHeader,
  problemsNotice,
  readGrace,
  textArea,
  textInput,
} from './forms.ts';
import { firstCall, rightsIn, TOKEN_PLACEHOLDER } from './key-jobs.ts';
import { isolated, shortened } from './list-parts.ts';
import { rulesRefusal } from './rule-rows.ts';
import { problemsByField } from './resource-pages.ts';
import { addressOf, badge, consolePage, csrfField, notice, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  isSuccess,
  type Outcome,
  problemLines,
  type Submission,
  type Visit,
} from './visit.ts';

// The pages of an application: its form with its key and deletion beside it, and the page that shows a new key once.

const PATH = '/console/applications';

const back = html`<p class="quiet"><a href="${PATH}">Applications</a></p>`;

/** When a key of the application was used last. */
export const lastUse = ({ last_used_at }: Application): Html =>
  time(last_used_at) ?? html`<span class="quiet">not yet</span>`;

const actor = (id: string | undefined, names: ReadonlyMap<string, string>): Html | undefined =>
  id === undefined ? undefined : html` by ${isolated(names.get(id) ?? id)}`;

const keyCard = (session: Session, { id }: Application, keys: Html, form_id: string): Html => {
  const newKey = {
    action: `${PATH}/${id}/key`,
    summary: 'Replace all keys',
    question:
      'All keys stop working now, everywhere, with the sessions that they made. Clients fail until they have the new key.',
    button: 'Stop all keys and make a new one',
    fields: html`<input type="hidden" name="form_id" value="${form_id}">`,
  };
  return html`<section class="card"><h2>API keys</h2>
${keys}
<p class="hint">A key is shown when it is made. It cannot be shown again.</p>
<p><a class="button second small" href="${PATH}/${id}/keys/new">Add a key</a></p>
${confirmed(session, newKey)}</section>`;
};

const recordCard = (session: Session, application: Application, names: ReadonlyMap<string, string>): Html => {
  const { id, name, created_at, created_by, modified_at, modified_by } = application;
  return html`<section class="card"><h2>Record</h2><dl>
<dt>Id</dt><dd>${shortened(id)}</dd>
<dt>Type</dt><dd>${badge(typeLabel(application.type))}</dd>
<dt>Created</dt><dd>${time(created_at)}${actor(created_by, names)}</dd>
${modified_at !== undefined && html`<dt>Changed</dt><dd>${time(modified_at)}${actor(modified_by, names)}</dd>`}</dl>
<p><a href="/console/logs?actor_id=${id}">What it did, in the log</a></p>
${confirmed(session, {
  action: `${PATH}/${id}/delete`,
  summary: 'Delete this application',
  question: 'Its key and its sessions stop working at once, everywhere. What it created stays.',
  button: `Delete ${name}`,
})}</section>`;
};

/** Undefined while what was typed is not complete. */
const rightsOfForm = ({ typed }: ApplicationForm): Rights | undefined =>
  rulesRefusal(typed) ? undefined : rightsIn(bodyOfForm(typed));

export const newApplicationPage = (session: Session, form: ApplicationForm, above?: HtmlValue): string =>
  consolePage(session, {
    title: 'New application',
    section: 'Applications',
    main: html`${back}
<h1>New application</h1>
${above}
<p class="quiet">A client of the API. It gets an API key, which is shown once.</p>
<div class="columns"><div>${applicationForm(session, form)}</div><div>${rightsCard(rightsOfForm(form), true)}</div></div>`,
  });

/** The page of a stored application. @param shown.names of actors, by id. */
export const applicationPage = (
  visit: Visit,
  shown: {
    application: Application;
    form: ApplicationForm;
    names: ReadonlyMap<string, string>;
    /** The list of its keys. */
    keys: Html;
    /** For the form that makes a new key. */
    form_id: string;
    above?: HtmlValue;
  },
): string => {
  const { application, form, names, keys, form_id, above } = shown;
  const { session } = visit;
  return consolePage(session, {
    title: application.name,
    section: 'Applications',
    main: html`${back}
<h1>${isolated(application.name)}</h1>
${copyMenu(visit, { id: application.id, call: { path: `/applications/${application.id}` } })}
${above}
<div class="columns"><div>${applicationForm(session, form)}</div>
<div>${rightsCard(rightsIn(application), false)}${keyCard(session, application, keys, form_id)}${recordCard(session, application, names)}</div></div>`,
  });
};

/** Shows a key once. The page is not stored (Cache-Control: no-store, as on every page). */
export const newKeyPage = (visit: Visit, application: Application, above?: HtmlValue): string => {
  const { id, name, type, key } = application;
  const rights = rightsIn(application);
  const call = rights && firstCall(rights);
  return consolePage(visit.session, {
    title: 'API key',
    section: 'Applications',
    main: html`${back}
<h1>The API key of ${isolated(name)}</h1>${above}
<section class="card revealed">
${notice('warn', html`<strong>Copy the key now.</strong> This page shows it once, and it cannot be shown again.`)}
<p><code data-copy>${key}</code></p>
<p class="hint">Clients send it as the header <code>SVC-API-KEY</code>. ${
      type === 'public'
        ? 'It may be in a page or an app.'
        : 'Keep it in a secret store: not in code, and not in a page or an app.'
    }</p>
</section>
${
  call &&
  html`<section class="card"><h2>A first request</h2>${copyBox('curl', samplesFor(visit, call).curl)}
<p class="hint"><code>${KEY_VARIABLE}</code> is the key.${JSON.stringify(call).includes(TOKEN_PLACEHOLDER) && html` <code>${TOKEN_PLACEHOLDER}</code> is the id of a token, and the header names where it is sent.`}</p></section>`
}
<p><a class="button second" href="${PATH}/${id}">Done</a></p>`,
  });
};

/** A key as the API shows it. */
export type ApplicationKey = {
  id: string;
  name?: string;
  expires_at?: string;
  allowed_addresses?: string[];
  last_used_at?: string;
  created_at: string;
  /** Only where it was created. */
  key?: string;
};

type TypedKey = { name: string; expires_at: string; allowed_addresses: string };

type KeyForm = Fields<keyof TypedKey>;

const nameOf = ({ id, name }: ApplicationKey): Html =>
  name === undefined ? html`<code>${id}</code>` : html`${isolated(name)} <code class="quiet">${id}</code>`;

const endOf = ({ expires_at }: ApplicationKey, now: Date): HtmlValue => {
  if (expires_at === undefined) return html`<span class="quiet">no end</span>`;
  return new Date(expires_at) <= now ? badge('ended', 'warn') : html`until ${time(expires_at)}`;
};

/** The keys beside an application's form. */
export const keysList = (id: string, keys: readonly ApplicationKey[], now: Date): Html =>
  keys.length === 0
    ? html`<p class="quiet">No keys yet.</p>`
    : html`<ul>${keys.map(
        (key) =>
          html`<li><a href="${PATH}/${id}/keys/${key.id}">${nameOf(key)}</a><br><small>${endOf(key, now)}, last use: ${time(key.last_used_at) ?? 'not yet'}${key.allowed_addresses && `, from ${key.allowed_addresses.join(', ')}`}</small></li>`,
      )}</ul>`;

const keyForm = (session: Session, action: string, form: KeyForm, hidden: HtmlValue, button: string): Html => {
  return html`<form method="post" action="${action}" class="card" autocomplete="off" novalidate>${csrfField(session)}${hidden}
${textInput(form, { name: 'name', label: 'Name', hint: 'What the key is for, such as the place that uses it' })}
${textInput(form, { name: 'expires_at', label: 'Expires', hint: 'A day or a time in UTC, such as 2027-03-01. Empty: never' })}
${textArea(form, { name: 'allowed_addresses', label: 'Allowed addresses', hint: 'IP addresses or networks that may use the key, one on each line: 192.0.2.0/24. Empty: all.' })}
<div class="actions"><button>${button}</button></div></form>`;
};

const backToApplication = (application: Application): Html =>
  html`<p class="quiet"><a href="${PATH}/${application.id}">${isolated(application.name)}</a></p>`;

const newPage = (
  { session, ctx }: Visit,
  application: Application,
  form: KeyForm = { typed: { name: '', expires_at: '', allowed_addresses: '' }, problems: new Map() },
  above?: HtmlValue,
): string => {
  const hidden = html`<input type="hidden" name="form_id" value="${ctx.newUuid()}">`;
  return consolePage(session, {
    title: 'New API key',
    section: 'Applications',
    main: html`${backToApplication(application)}<h1>New API key</h1>${above}
<p class="quiet">Your other keys keep working. The new key is shown once.</p>
${keyForm(session, `${PATH}/${application.id}/keys`, form, hidden, 'Create key')}`,
  });
};

const keyPage = (
  { session, ctx }: Visit,
  application: Application,
  key: ApplicationKey,
  form: KeyForm,
  above?: HtmlValue,
): string => {
  const action = `${PATH}/${application.id}/keys/${key.id}`;
  return consolePage(session, {
    title: 'API key',
    section: 'Applications',
    main: html`${backToApplication(application)}<h1>API key <code>${key.id}</code></h1>${above}
${keyForm(session, action, form, undefined, 'Save')}
<section class="card"><dl><dt>Created</dt><dd>${time(key.created_at)}</dd><dt>Last use</dt><dd>${time(key.last_used_at) ?? html`<span class="quiet">not yet</span>`}</dd></dl>
${confirmed(session, { action: `${action}/rotate`, summary: 'Replace this key', question: 'You get a new key with the same name, expiry and addresses. It is shown once.', button: 'Replace the key', fields: html`<input type="hidden" name="form_id" value="${ctx.newUuid()}">${graceField}` })}
${confirmed(session, { action: `${action}/revoke`, summary: 'Revoke this key', question: 'It stops working now, everywhere. Your other keys keep working.', button: 'Revoke the key' })}</section>`,
  });
};

const formOf = ({ name = '', expires_at = '', allowed_addresses = [] }: ApplicationKey): KeyForm => ({
  typed: { name, expires_at, allowed_addresses: allowed_addresses.join('\n') },
  problems: new Map(),
});

const readForm = (field: (name: string) => string): TypedKey => ({
  name: field('name').trim(),
  expires_at: field('expires_at').trim(),
  allowed_addresses: linesOf(field('allowed_addresses')),
});

const bodyOfKey = ({ name, expires_at, allowed_addresses }: TypedKey) => {
  const networks = listOfLines(allowed_addresses);
  return {
    ...(name !== '' && { name }),
    ...(expires_at !== '' && { expires_at }),
    ...(networks && { allowed_addresses: networks }),
  };
};

/** The API's errors beside their fields, and above the form where they belong to none. */
const refusalOf = (heading: string, typed: TypedKey, answer: ApiAnswer) => {
  const problems = problemsByField(answer, (place) => place.replace(/\[.*$/, ''));
  const lines = problems.size > 0 ? [LOOK] : problemLines(answer);
  return { form: { typed, problems }, above: problemsNotice(heading, lines) };
};

const postKey = (submission: Submission, { id }: Application, typed: TypedKey): Promise<ApiAnswer> =>
  submission.api({
    method: 'POST',
    url: `/applications/${id}/keys`,
    // A form that is sent twice makes one key.
    headers: onceHeader(submission.field),
    json: bodyOfKey(typed),
    // The member gets all that the application holds.
    withAllGrants: true,
  });

const NOT_REPLACED = 'The key was not replaced.';

const keyIdOf = ({ param }: Visit): string => {
  const id = param('key_id');
  if (!/^[0-9A-Za-z]{16}$/.test(id)) throw notFound('API key');
  return id;
};

type FindApplication = (visit: Visit) => Promise<Application>;

const findKey = async (visit: Visit): Promise<ApplicationKey> =>
  bodyOf(await visit.api({ method: 'GET', url: `/applications/${idOf(visit, 'application')}/keys/${keyIdOf(visit)}` }));

const pageOf = (visit: Visit): string => `${PATH}/${idOf(visit, 'application')}`;

const endKey = (submission: Submission, key: ApplicationKey, url: string, grace_seconds: number) => {
  if (grace_seconds === 0) return submission.api({ method: 'DELETE', url });
  const endMs = Math.min(
    submission.ctx.now().getTime() + grace_seconds * 1_000,
    ...(key.expires_at === undefined ? [] : [Date.parse(key.expires_at)]),
  );
  const json = { ...bodyOfKey(formOf(key).typed), expires_at: new Date(endMs).toISOString() };
  return submission.api({ method: 'PUT', url, json, withAllGrants: true });
};

/** Makes another key like this one, and ends this one after that: at no time there is none. */
const rotate =
  (find: FindApplication) =>
  async (submission: Submission): Promise<Outcome> => {
    const [application, key] = await Promise.all([find(submission), findKey(submission)]);
    const grace_seconds = readGrace(submission.field);
    const form = formOf(key);
    if (grace_seconds === undefined) {
      const above = problemsNotice(NOT_REPLACED, ['The form does not say when the current key ends.']);
      return { status: 400, page: keyPage(submission, application, key, form, above) };
    }
    const answer = await postKey(submission, application, form.typed);
    if (!isSuccess(answer)) {
      const refused = refusalOf(NOT_REPLACED, form.typed, answer);
      return { status: answer.status, page: keyPage(submission, application, key, refused.form, refused.above) };
    }
    if (isReplayed(answer)) return { seeOther: addressOf(pageOf(submission), { done: 'shown' }) };
    const url = `/applications/${application.id}/keys/${key.id}`;
    const ended = await endKey(submission, key, url, grace_seconds);
    const above = isSuccess(ended)
      ? undefined
      : problemsNotice('The replaced key still works: revoke it.', problemLines(ended));
    return newKeyPage(submission, { ...application, key: (answer.body as { key: string }).key }, above);
  };

/** One more key of the application. */
const makeKey =
  (find: FindApplication) =>
  async (submission: Submission): Promise<Outcome> => {
    const application = await find(submission);
    const typed = readForm(submission.field);
    const answer = await postKey(submission, application, typed);
    if (!isSuccess(answer)) {
      const { form, above } = refusalOf('The key was not created.', typed, answer);
      return { status: answer.status, page: newPage(submission, application, form, above) };
    }
    if (isReplayed(answer)) return { seeOther: addressOf(pageOf(submission), { done: 'shown' }) };
    return newKeyPage(submission, { ...application, key: (answer.body as { key: string }).key });
  };

/** Changes the name, end and addresses of a key. */
const saveKey =
  (find: FindApplication) =>
  async (submission: Submission): Promise<Outcome> => {
    const [application, key] = await Promise.all([find(submission), findKey(submission)]);
    const typed = readForm(submission.field);
    const answer = await submission.api({
      method: 'PUT',
      url: `/applications/${application.id}/keys/${key.id}`,
      json: bodyOfKey(typed),
      withAllGrants: true,
    });
    if (isSuccess(answer)) return { seeOther: addressOf(pageOf(submission), { done: 'key-saved' }) };
    const { form, above } = refusalOf('The key was not saved.', typed, answer);
    return { status: answer.status, page: keyPage(submission, application, key, form, above) };
  };

/** @param find the application of the visit's path. */
export const applicationKeysPages = (console: Console, find: FindApplication): void => {
  console.get(`${PATH}/:id/keys/new`, async (visit) => newPage(visit, await find(visit)));
  console.get(`${PATH}/:id/keys`, async (visit) => ({ seeOther: pageOf(visit) }));
  console.postAfterCode(`${PATH}/:id/keys`, makeKey(find));

  console.get(`${PATH}/:id/keys/:key_id`, async (visit) => {
    const [application, key] = await Promise.all([find(visit), findKey(visit)]);
    return keyPage(visit, application, key, formOf(key));
  });
  console.postAfterCode(`${PATH}/:id/keys/:key_id`, saveKey(find));
  console.get(`${PATH}/:id/keys/:key_id/rotate`, async (visit) => ({ seeOther: pageOf(visit) }));
  console.postAfterCode(`${PATH}/:id/keys/:key_id/rotate`, rotate(find));
  console.get(`${PATH}/:id/keys/:key_id/revoke`, async (visit) => ({ seeOther: pageOf(visit) }));
  console.postAfterCode(`${PATH}/:id/keys/:key_id/revoke`, async (submission): Promise<Outcome> => {
    const url = `/applications/${idOf(submission, 'application')}/keys/${keyIdOf(submission)}`;
    bodyOf(await submission.api({ method: 'DELETE', url }));
    return { seeOther: addressOf(pageOf(submission), { done: 'key-revoked' }) };
  });
};
