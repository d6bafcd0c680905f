// The application pages: lists applications, creates, changes and deletes them, and makes new keys, all by the API.
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { permissions } from '../access/permissions.ts';
import type { Simulated } from '../answers/simulate.ts';
import { simulatedCard } from './access.ts';
import { isolated, namesOf } from './list-parts.ts';
import { type ApplicationForm, offeredPermissions, TRIED_DAYS, typeLabel } from './application-form.ts';
import {
  type ApplicationKey,
  applicationKeysPages,
  applicationPage,
  keysList,
  lastUse,
  newApplicationPage,
  newKeyPage,
} from './application-page.ts';
import {
  type Application,
  bodyOfForm,
  emptyForm,
  formOf,
  jobProblems,
  keySettings,
  keptFields,
  problemsOfForm,
  readForm,
} from './application-record.ts';
import { isReplayed, linesAbove, LOOK, onceHeader, problemsNotice } from './forms.ts';
import { rulesRefusal } from './rule-rows.ts';
import {
  actionAt,
  changedNotice,
  deletePages,
  findRecord,
  type Kind,
  namedList,
  recordUrl,
  versionOf,
} from './resource-pages.ts';
import { addressOf, badge, may, notice, recordsTable } from './shell.ts';
import { type ApiAnswer, bodyOf, type Console, isSuccess, type Outcome, type Submission, type Visit } from './visit.ts';

const KIND: Kind = {
  path: '/console/applications',
  url: '/applications',
  section: 'Applications',
  noun: 'application',
};

const PATH = KIND.path;

/** Permissions that a row of the list names. */
const NAMED_MAX = 3;

/** Results that a URL may name. A closed list, because anyone can make a URL. */
const doneSentences: ReadonlyMap<string, string> = new Map([
  ['saved', 'The application was saved. Takes effect now.'],
  ['deleted', 'The application was deleted. Its keys no longer work.'],
  ['key-saved', 'The key was saved.'],
  ['key-revoked', 'The key was revoked. It no longer works.'],
  ['shown', 'This form was sent before, and a key is shown once. If you did not copy it, make a new key.'],
]);

const doneNotice = (visit: Visit): Html | undefined => {
  const code = visit.query('done');
  const sentence = doneSentences.get(code);
  return sentence === undefined ? undefined : notice(code === 'shown' ? 'warn' : 'good', sentence);
};

const rightsIn = ({ permissions: held, rules }: Application): HtmlValue => {
  if (held.length === permissions.length) return 'all permissions';
  const rest = held.length - NAMED_MAX;
  return [
    held.slice(0, NAMED_MAX).map((permission) => html`<code>${permission}</code> `),
    rest > 0 && html`<span class="quiet">and ${rest} more</span> `,
    rules.length > 0 &&
      html`<span class="quiet">${rules.length} access ${rules.length === 1 ? 'rule' : 'rules'}</span>`,
  ];
};

const limitsIn = (application: Application): HtmlValue => {
  const { rate_limit, daily_reveals, daily_uses, creates_per_minute } = application;
  const limits = [
    rate_limit && `${rate_limit.requests_per_second.toLocaleString('en')} requests/s`,
    daily_reveals !== undefined && `${daily_reveals.toLocaleString('en')} reveals/day`,
    daily_uses !== undefined && `${daily_uses.toLocaleString('en')} uses/day`,
    creates_per_minute !== undefined && `${creates_per_minute.toLocaleString('en')} creates/min`,
  ].filter((limit) => typeof limit === 'string');
  return limits.length === 0 ? html`<span class="quiet">no limit</span>` : limits.join(', ');
};

const listTable = (applications: readonly Application[]): Html =>
  recordsTable('Applications', applications, [
    { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${isolated(name)}</a>` },
    { label: 'Type', cell: ({ type }) => badge(typeLabel(type)) },
    { label: 'May', cell: rightsIn },
    { label: 'Limits', cell: limitsIn },
    { label: 'Last use', cell: lastUse },
  ]);

const listPage = (visit: Visit): Promise<string> =>
  namedList<Application>(visit, KIND, {
    heading: html`<div class="heading"><h1>Applications</h1><a class="button" href="${PATH}/new">New application</a></div>`,
    above: doneNotice(visit),
    sample: 'Checkout*',
    table: listTable,
  });

/** The page with the key. A repeated form gets none: a key is shown once. */
const shownOnce = (visit: Visit, answer: ApiAnswer): Outcome => {
  const application = answer.body as Application;
  if (isReplayed(answer)) return { seeOther: addressOf(`${PATH}/${application.id}`, { done: 'shown' }) };
  return newKeyPage(visit, application);
};

type Refused = { status: number; form: ApplicationForm; above: Html };

const readTyped = (
  submission: Submission,
  { id, type, rules }: { id?: string; type: string; rules: readonly unknown[] },
): ApplicationForm => {
  const offered = offeredPermissions(id, type);
  const more = { form_id: submission.ctx.newUuid(), stored: rules };
  const typed = readForm((name) => submission.field(name), offered, more);
  return { id, typed: { ...typed, type }, problems: new Map() };
};

/** Undefined where the rules can be read. */
const refuseRules = (form: ApplicationForm, heading: string): Refused | undefined => {
  const unreadable = rulesRefusal(form.typed);
  if (!unreadable) return undefined;
  const problems = new Map([['rules', [`The rules ${unreadable.sentence}.`]]]);
  const above = problemsNotice(heading, [LOOK]);
  return { status: 422, form: { ...form, problems, rulesLine: unreadable.line }, above };
};

/** Sends the form to the API. @returns the response, or the form with its errors. */
const send = async (
  submission: Submission,
  form: ApplicationForm,
  { heading, method, url, hasKey = true }: { heading: string; method: 'POST' | 'PUT'; url: string; hasKey?: boolean },
): Promise<{ answer: ApiAnswer } | Refused> => {
  const { typed } = form;
  const unreadable = refuseRules(form, heading);
  if (unreadable) return unreadable;
  const { type, ...json } = bodyOfForm(typed);
  const ofNew = { type, ...(!hasKey && { create_key: false }) };
  const answer = await submission.api({
    method,
    url,
    headers: method === 'POST' ? onceHeader(submission.field) : {},
    json: method === 'POST' ? { ...json, ...ofNew } : json,
    // The member gives the application rights, and holds all of them.
    withAllGrants: true,
  });
  if (isSuccess(answer)) return { answer };
  return refuse(form, heading, answer);
};

/** The errors of a refused request in the form. */
const refuse = (form: ApplicationForm, heading: string, answer: ApiAnswer): Refused => {
  const problems = problemsOfForm(form.typed, answer);
  const above = problemsNotice(heading, linesAbove(problems, answer));
  return { status: answer.status, form: { ...form, problems }, above };
};

/** A key with an end or networks is made after its application, which is deleted again where the key is refused. */
const makeFirstKey = async (submission: Submission, application: Application, settings: object) => {
  const url = `/applications/${application.id}`;
  const answer = await submission.api({ method: 'POST', url: `${url}/keys`, json: settings, withAllGrants: true });
  if (isSuccess(answer)) return { key: (answer.body as { key: string }).key };
  await submission.api({ method: 'DELETE', url });
  return { refused: answer };
};

const create = async (submission: Submission): Promise<Outcome> => {
  const heading = 'The application was not created.';
  const form = readTyped(submission, { type: submission.field('type'), rules: [] });
  const show = ({ status, form: shown, above }: Refused): Outcome => ({
    status,
    page: newApplicationPage(submission.session, shown, above),
  });
  const problems = jobProblems(form.typed);
  if (problems.size > 0)
    return show({ status: 422, form: { ...form, problems }, above: problemsNotice(heading, [LOOK]) });
  const settings = keySettings(form.typed, submission.ctx.now());
  const sent = await send(submission, form, { heading, method: 'POST', url: '/applications', hasKey: !settings });
  if (!('answer' in sent)) return show(sent);
  if (!settings || isReplayed(sent.answer)) return shownOnce(submission, sent.answer);
  const application = sent.answer.body as Application;
  const made = await makeFirstKey(submission, application, settings);
  if (made.key !== undefined) return newKeyPage(submission, { ...application, key: made.key });
  // Another form: the id of this one stands for the application that is gone.
  const again = { ...form, typed: { ...form.typed, form_id: submission.ctx.newUuid() } };
  return show(refuse(again, heading, made.refused));
};

/** The application of the page's path. */
const findApplication = (visit: Visit): Promise<Application> => findRecord(visit, KIND);

const showApplication = async (visit: Visit, application: Application, form: ApplicationForm, above?: HtmlValue) => {
  const [names, keys] = await Promise.all([
    namesOf(visit, [application.created_by, application.modified_by]),
    visit.api({ method: 'GET', url: `/applications/${application.id}/keys` }).then(bodyOf<{ data: ApplicationKey[] }>),
  ]);
  const { ctx } = visit;
  const shown = { application, form, names, keys: keysList(application.id, keys.data, ctx.now()) };
  return applicationPage(visit, { ...shown, form_id: ctx.newUuid(), above });
};

const storedForm = ({ ctx }: Visit, application: Application): ApplicationForm => ({
  id: application.id,
  typed: formOf(application, ctx.newUuid()),
  problems: new Map(),
});

/** What the change would have done to the requests of the last days. Nothing is saved. */
const tryChange = async (submission: Submission, application: Application, form: ApplicationForm): Promise<Outcome> => {
  const refused = async ({ status, form: shown, above }: Refused): Promise<Outcome> => ({
    status,
    page: await showApplication(submission, application, shown, above),
  });
  const heading = 'The change was not tried.';
  const unreadable = refuseRules(form, heading);
  if (unreadable) return refused(unreadable);
  const { permissions, rules, allowed_hosts } = bodyOfForm(form.typed);
  const answer = await submission.api({
    method: 'POST',
    url: '/access/simulate',
    json: {
      application_id: application.id,
      permissions,
      rules,
      allowed_hosts: allowed_hosts ?? null,
      days: TRIED_DAYS,
    },
    // The trial compares rights like the save, and shows no values.
    withAllGrants: true,
  });
  if (!isSuccess(answer)) return refused(refuse(form, heading, answer));
  return showApplication(submission, application, form, simulatedCard(answer.body as Simulated, TRIED_DAYS));
};

const change = async (submission: Submission): Promise<Outcome> => {
  const application = await findApplication(submission);
  const { id } = application;
  const form = readTyped(submission, application);
  const seen = versionOf(application);
  if (form.typed.seen !== seen) {
    const current = { ...form, typed: { ...form.typed, seen } };
    return { status: 409, page: await showApplication(submission, application, current, changedNotice(KIND.noun)) };
  }
  if (submission.field('do') === 'try') return tryChange(submission, application, form);
  const heading = 'The application was not saved.';
  const sent = await send(submission, form, { heading, method: 'PUT', url: `/applications/${id}` });
  if ('answer' in sent) return { seeOther: addressOf(`${PATH}/${id}`, { done: 'saved' }) };
  return { status: sent.status, page: await showApplication(submission, application, sent.form, sent.above) };
};

const makeKey = async (submission: Submission): Promise<Outcome> => {
  const answer = await submission.api({
    method: 'POST',
    url: `${recordUrl(submission, KIND)}/regenerate`,
    headers: onceHeader(submission.field),
    // The member gets all that the application holds.
    withAllGrants: true,
  });
  bodyOf(answer);
  return shownOnce(submission, answer);
};

/** Shows what the typed rights mean. It makes nothing. */
const check = async (submission: Submission): Promise<Outcome> => {
  if (!may(submission.session, 'application:create'))
    throw new AppError('forbidden', 'Your role does not create applications.');
  const form = readTyped(submission, { type: submission.field('type'), rules: [] });
  const problems = jobProblems(form.typed);
  return newApplicationPage(submission.session, { ...form, problems });
};

export const applicationsPages = (console: Console): void => {
  console.get(PATH, listPage);
  console.get(`${PATH}/new`, async ({ session, ctx }) =>
    newApplicationPage(session, { id: undefined, typed: emptyForm(ctx.newUuid()), problems: new Map() }),
  );
  console.postAfterCode(`${PATH}/new`, create, keptFields);
  console.postFetched(`${PATH}/check`, check);
  console.get(`${PATH}/check`, async () => ({ seeOther: `${PATH}/new` }));
  console.get(`${PATH}/:id`, async (visit) => {
    const application = await findApplication(visit);
    return showApplication(visit, application, storedForm(visit, application), doneNotice(visit));
  });
  console.postAfterCode(`${PATH}/:id`, change, keptFields);
  actionAt(console, KIND, 'key', makeKey);
  deletePages(console, KIND);
  applicationKeysPages(console, findApplication);
};
