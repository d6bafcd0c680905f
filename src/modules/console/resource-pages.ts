// The pages of one kind of record from one description: the list by name, the form that makes and changes one, its deletion.
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import type { Permission } from '../access/permissions.ts';
import { type FieldProblems, idOf, linesAbove, LOOK, onceHeader, problemsByPlace, problemsNotice } from './forms.ts';
import { nameSearch, pagerOf, readNamedPage } from './list-parts.ts';
import { addressOf, consolePage, csrfField, empty, may, notice, type Section } from './shell.ts';
import { type ApiAnswer, bodyOf, type Console, isSuccess, type Outcome, type Submission, type Visit } from './visit.ts';

/** A kind names its pages, its records in the API, and the words for them. */
export type Kind = {
  path: string;
  url: string;
  section: Section;
  noun: string;
  /** The id in the path of a page, for ids that are no UUID. */
  idIn?: (visit: Visit) => string;
};

const idIn = (visit: Visit, kind: Kind): string => kind.idIn?.(visit) ?? idOf(visit, kind.noun);

/** The URL in the API of the record that a page is about. */
export const recordUrl = (visit: Visit, kind: Kind): string => `${kind.url}/${idIn(visit, kind)}`;

/** The page of the record that a visit is about. */
export const recordPath = (visit: Visit, kind: Kind): string => `${kind.path}/${idIn(visit, kind)}`;

export const findRecord = async <Row>(visit: Visit, kind: Kind): Promise<Row> =>
  bodyOf<Row>(await visit.api({ method: 'GET', url: recordUrl(visit, kind) }));

/** A list that is searched by name. @param list.above the result of an action, and what the list is of. */
export const namedList = async <Row>(
  visit: Visit,
  { path, url, section }: Kind,
  list: {
    heading: Html;
    above: HtmlValue;
    /** A name to search for. */
    sample: string;
    table: (rows: readonly Row[]) => Html | Promise<Html>;
    below?: Promise<Html | undefined>;
  },
): Promise<string> => {
  const [{ name, data, pagination }, below] = await Promise.all([readNamedPage<Row>(visit, url), list.below]);
  const plural = section.toLowerCase();
  return consolePage(visit.session, {
    title: section,
    section,
    main: html`${list.heading}
${list.above}
${nameSearch(path, name, list.sample)}
${data.length === 0 ? empty(name === '' ? `No ${plural} yet.` : `No ${plural} match.`) : await list.table(data)}
${pagerOf(pagination, { path, parameters: { name }, label: `Pages of ${plural}` })}
${below}`,
  });
};

/** The version of a record, so that changes of others are not overwritten. */
export const versionOf = ({ modified_at, created_at = '' }: { modified_at?: string; created_at?: string }): string =>
  modified_at ?? created_at;

/** Above a form that was opened before others changed its record. */
export const changedNotice = (noun: string, again = 'Save'): Html =>
  notice(
    'warn',
    `This ${noun} was changed since the page was opened. Your changes are below and are not saved. ${again} again to overwrite the other changes.`,
  );

/**
 * The API's errors by field of a form.
 * @param toField the field of a place in the body; empty for none, whose errors name their place.
 * @param toSentence the sentence beside a field.
 */
export const problemsByField = (
  answer: ApiAnswer,
  toField: (place: string) => string,
  toSentence: (sentence: string, place: string) => string = (sentence) => sentence,
): FieldProblems => {
  const problems = new Map<string, string[]>();
  for (const [place, sentences] of problemsByPlace(answer)) {
    const field = toField(place);
    const lines = sentences.map((each) => (field === '' ? `${place} ${each}` : toSentence(each, place)));
    problems.set(field, [...(problems.get(field) ?? []), ...lines]);
  }
  return problems;
};

/** A form that acts on a record, after the second factor. A GET of its URL leads to the page of the record. */
export const actionAt = (
  console: Console,
  kind: Kind,
  action: string,
  act: (submission: Submission) => Promise<Outcome>,
): void => {
  console.get(`${kind.path}/:id/${action}`, async (visit) => ({ seeOther: recordPath(visit, kind) }));
  console.postAfterCode(`${kind.path}/:id/${action}`, act);
};

/** Deletes a record, and leads to the list. @param showConflict the page of a record that others need. */
export const deletePages = (
  console: Console,
  kind: Kind,
  showConflict?: (submission: Submission, answer: ApiAnswer) => Promise<string>,
): void =>
  actionAt(console, kind, 'delete', async (submission) => {
    const answer = await submission.api({ method: 'DELETE', url: recordUrl(submission, kind) });
    if (answer.status === 409 && showConflict) return { status: 409, page: await showConflict(submission, answer) };
    bodyOf(answer);
    return { seeOther: addressOf(kind.path, { done: 'deleted' }) };
  });

/** The page after an action that the API refused. */
export const failedPage = (
  visit: Visit,
  kind: Kind,
  { title, heading, lines }: { title: string; heading: string; lines: readonly string[] },
): string =>
  consolePage(visit.session, {
    title,
    section: kind.section,
    main: html`<h1>${title}</h1>${problemsNotice(heading, lines)}
<p><a class="button second" href="${recordPath(visit, kind)}">Back</a></p>`,
  });

/** `hidden`: what the form carries along unseen. */
export type Frame = { hidden: Html; above: HtmlValue };

/** The form of a kind: its state, its page, and its body for the API. */
export type RecordForm<Row, Form extends { problems: FieldProblems }> = {
  permission: Permission;
  /** The fields whose text is shown again if the session has ended. */
  keeps: readonly string[];
  /** Asks for the second factor before it shows what is stored. */
  isSecret?: true;
  /** The API compares the rights that the record passes on: the member may pass on all of its own. */
  withAllGrants?: true;
  method?: 'PATCH';
  /** `row`: undefined for a new one. */
  open: (row: Row | undefined) => Form;
  read: (submission: Submission, row: Row | undefined) => Form;
  show: (visit: Visit, form: Form, frame: Frame) => string | Promise<string>;
  /** Or the errors that need no request. `json` is undefined where there is nothing to save. */
  toBody: (form: Form, row: Row | undefined) => { json: object | undefined } | { problems: FieldProblems };
  toProblems: (form: Form, answer: ApiAnswer) => FieldProblems;
  /** What is shown of a new record. */
  made?: (submission: Submission, answer: ApiAnswer) => Outcome;
};

/** The CSRF token, and the version that is changed, or the id by which a form that is sent twice makes one record. */
const hiddenOf = ({ session }: Visit, row: object | undefined, form_id: string): Html =>
  html`${csrfField(session)}${row ? html`<input type="hidden" name="seen" value="${versionOf(row)}">` : html`<input type="hidden" name="form_id" value="${form_id}">`}`;

const save = async <Row extends object, Form extends { problems: FieldProblems }>(
  submission: Submission,
  kind: Kind,
  form: RecordForm<Row, Form>,
  row: Row | undefined,
): Promise<Outcome> => {
  const typed = form.read(submission, row);
  const show = async (status: number, shown: Form, above: Html): Promise<Outcome> => {
    const hidden = hiddenOf(submission, row, submission.field('form_id'));
    return { status, page: await form.show(submission, shown, { hidden, above }) };
  };
  if (row && submission.field('seen') !== versionOf(row)) return show(409, typed, changedNotice(kind.noun));
  const refuse = (status: number, problems: FieldProblems, lines: readonly string[]): Promise<Outcome> => {
    const heading = `The ${kind.noun} was not ${row ? 'saved' : 'created'}.`;
    return show(status, { ...typed, problems }, problemsNotice(heading, lines));
  };
  const body = form.toBody(typed, row);
  if ('problems' in body) return refuse(422, body.problems, [LOOK]);
  const saved = (): Outcome => ({ seeOther: addressOf(recordPath(submission, kind), { done: 'saved' }) });
  if (!body.json) return saved();
  const answer = await submission.api({
    ...(row
      ? { method: form.method ?? 'PUT', url: recordUrl(submission, kind) }
      : { method: 'POST', url: kind.url, headers: onceHeader(submission.field) }),
    json: body.json,
    ...(form.withAllGrants && { withAllGrants: true }),
  });
  if (!isSuccess(answer)) {
    const problems = form.toProblems(typed, answer);
    return refuse(answer.status, problems, linesAbove(problems, answer));
  }
  if (row) return saved();
  const { id } = answer.body as { id: string };
  return form.made?.(submission, answer) ?? { seeOther: addressOf(`${kind.path}/${id}`, { done: 'made' }) };
};

/** The page that changes a record by its form. */
export const editPages = <Row extends object, Form extends { problems: FieldProblems }>(
  console: Console,
  kind: Kind,
  form: RecordForm<Row, Form>,
): void => {
  const path = `${kind.path}/:id/edit`;
  console.get(path, async (visit) => {
    if (!may(visit.session, form.permission))
      throw new AppError('forbidden', `Your role does not change ${kind.section.toLowerCase()}.`);
    if (form.isSecret && visit.stepUp !== undefined) return { seeOther: visit.stepUp };
    const row = await findRecord<Row>(visit, kind);
    return form.show(visit, form.open(row), { hidden: hiddenOf(visit, row, ''), above: undefined });
  });
  console.postAfterCode(
    path,
    async (submission) => save(submission, kind, form, await findRecord<Row>(submission, kind)),
    form.keeps,
  );
};

/** The page that makes a record by its form. */
export const newPages = <Row extends object, Form extends { problems: FieldProblems }>(
  console: Console,
  kind: Kind,
  form: RecordForm<Row, Form>,
): void => {
  const path = `${kind.path}/new`;
  console.get(path, async (visit) =>
    form.show(visit, form.open(undefined), {
      hidden: hiddenOf(visit, undefined, visit.ctx.newUuid()),
      above: undefined,
    }),
  );
  console.postAfterCode(path, (submission) => save(submission, kind, form, undefined), form.keeps);
};
