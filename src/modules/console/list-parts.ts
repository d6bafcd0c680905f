// Parts of console list pages: filter fields with errors, pages by cursor and by number, a search by name, names of actors.
import { DAY_MS, HOUR_MS } from '../../platform/base/times.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { findActorNames } from '../logs/names.ts';
import { fieldProblem, invalidAttributes } from './forms.ts';
import { addressOf, notice } from './shell.ts';
import { type ApiAnswer, bodyOf, problemLines, type Visit } from './visit.ts';

/** A page of a list in the API. */
export type ListPage<Row> = {
  pagination: { total_items?: number; total_is_capped?: boolean; next?: string };
  data: Row[];
};

/** The sentences of a problem about each filter, by its name. */
export type FieldSentences = Record<string, string[]>;

export type Listed<Row> = { page: ListPage<Row> | undefined; problems: FieldSentences };

/** Records on a page. If they are too large together for one response of the API, a smaller size is tried. */
const SIZES = [20, 4, 1] as const;

const problemsOf = (answer: ApiAnswer): FieldSentences => {
  const { errors } = (answer.body ?? {}) as { errors?: FieldSentences };
  return errors ?? { '': problemLines(answer) };
};

/** A page, or the errors of the filters. @throws AppError for every other refusal. */
export const fetchPage = async <Row>(fetch: (size: number) => Promise<ApiAnswer>): Promise<Listed<Row>> => {
  let answer: ApiAnswer | undefined;
  for (const size of SIZES) {
    answer = await fetch(size);
    if (answer.status !== 413) break;
  }
  if (answer?.status === 400) return { page: undefined, problems: problemsOf(answer) };
  return { page: bodyOf<ListPage<Row>>(answer as ApiAnswer), problems: {} };
};

/** 400 if a filter is invalid. */
export const statusOf = ({ page }: Listed<unknown>): number => (page ? 200 : 400);

export const problemOf = (name: string, problems: FieldSentences): Html | undefined =>
  fieldProblem(`${name}-problem`, problems[name] ?? []);

/** The attributes of an input with an error. */
export const invalidAttributesOf = (name: string, problems: FieldSentences): Html | undefined =>
  invalidAttributes(`${name}-problem`, problems[name] ?? []);

export const field = (input: {
  name: string;
  label: string;
  value: string;
  problems: FieldSentences;
  type?: 'text' | 'datetime-local';
}): Html => {
  const { name, label, value, problems, type = 'text' } = input;
  return html`<label>${label}<input name="${name}" type="${type}" value="${value}"${
    type === 'datetime-local' ? html` step="1"` : html` autocomplete="off" autocapitalize="off" spellcheck="false"`
  }${invalidAttributesOf(name, problems)}>${problemOf(name, problems)}</label>`;
};

/** The value of a datetime-local input, in UTC. The API reads other dates of a URL. */
const inputTime = (text: string): string => /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?/.exec(text)?.[0] ?? '';

/** The two fields of a range of time. */
export const rangeFields = (filter: { start_date: string; end_date: string }, problems: FieldSentences): Html => {
  const at = (name: 'start_date' | 'end_date', label: string) =>
    field({ name, label, value: inputTime(filter[name]), problems, type: 'datetime-local' });
  return html`${at('start_date', 'From, in UTC')}\n${at('end_date', 'Before, in UTC')}`;
};

/** Records of one kind that a form offers by name, the newest. The page of any other record links to what is about it. */
export const NAMES_OFFERED_MAX = 100;

export const optionsOf = (
  options: readonly (readonly [value: string, text: HtmlValue])[],
  chosen: string,
): readonly Html[] =>
  options.map(
    ([value, text]) => html`<option value="${value}"${attribute('selected', value === chosen)}>${text}</option>`,
  );

/** A filter with choices, of which the first is all. */
export const choiceField = (
  { name, label, problems }: { name: string; label: string; problems: FieldSentences },
  options: HtmlValue,
): Html =>
  html`<label>${label}<select name="${name}"${invalidAttributesOf(name, problems)}><option value="">All</option>${options}</select>${problemOf(name, problems)}</label>`;

/** Ranges of time that a link names. Only the day before, in UTC, has an end. */
const rangesOf = (now: Date): [text: string, from: number, to?: number][] => {
  const at = now.getTime();
  const today = at - (at % DAY_MS);
  return [
    ['Last hour', at - HOUR_MS],
    ['24 hours', at - DAY_MS],
    ['Yesterday', today - DAY_MS, today],
    ['7 days', at - 7 * DAY_MS],
  ];
};

const dateOf = (at: number | undefined): string => (at === undefined ? '' : new Date(at).toISOString());

/** Links to choices of one filter, and to ranges of time, with the other filters as they are. */
export const filterChips = <Filter extends Record<string, string>>(
  path: string,
  {
    filter,
    name,
    choices,
    now,
  }: {
    filter: Filter;
    name: keyof Filter & string;
    choices: readonly (readonly [text: string, value: string])[];
    now: Date;
  },
): Html => {
  const link = (text: string, change: Record<string, string>, isCurrent: boolean): Html =>
    html`<a class="chip" href="${addressOf(path, { ...filter, ...change })}"${isCurrent && html` aria-current="true"`}>${text}</a>`;
  return html`<nav class="chips" aria-label="Filters">${choices.map(([text, value]) =>
    link(text, { [name]: value }, filter[name] === value),
  )}<span class="gap"></span>${rangesOf(now).map(([text, from, to]) =>
    link(
      text,
      { start_date: dateOf(from), end_date: dateOf(to) },
      to !== undefined && filter['end_date'] === dateOf(to),
    ),
  )}</nav>`;
};

/** Errors that are not shown next to a field. */
export const otherProblems = (problems: FieldSentences, fields: readonly string[]): Html[] =>
  Object.entries(problems)
    .filter(([name]) => !fields.includes(name))
    .map(([name, lines = []]) => {
      // The cursor is not typed by the user, so its error says how to continue.
      const sentence =
        name === 'start' ? 'This page does not exist. Start again with the first page.' : lines.join(' ');
      return notice('bad', name === '' || name === 'start' ? sentence : `${name} ${sentence}`);
    });

/** The number of records. The API returns it with first pages only. */
export const totalOf = ({ pagination }: ListPage<unknown>): string | undefined => {
  const { total_items, total_is_capped } = pagination;
  if (total_items === undefined) return undefined;
  return `${total_items.toLocaleString('en')}${total_is_capped === true ? ' or more' : ''}`;
};

/** Links to the first and the next page. @param next a link or a form. */
export const cursorPagerOf = (first: HtmlValue, next: HtmlValue): Html | undefined =>
  first || next
    ? html`<nav class="pager" aria-label="Pages"><span>${first}</span><span>${next}</span></nav>`
    : undefined;

/** The pager of a page with its parameters in the URL. @param cursor the name of the cursor's parameter. */
export const cursorPager = (
  path: string,
  parameters: Record<string, string>,
  { cursor = 'start', start, page }: { cursor?: string; start: string; page: ListPage<unknown> | undefined },
): Html | undefined =>
  cursorPagerOf(
    start !== '' && html`<a class="button second small" href="${addressOf(path, parameters)}">First page</a>`,
    page?.pagination.next !== undefined &&
      html`<a class="button second small" rel="next" href="${addressOf(path, { ...parameters, [cursor]: page.pagination.next })}">Next page</a>`,
  );

/** Cuts a long text. */
export const clipped = (text: string, lengthMax: number): string =>
  // Not within a surrogate pair.
  text.length <= lengthMax ? text : `${text.slice(0, lengthMax).replace(/[\ud800-\udbff]$/, '')}…`;

/** Text of other people, isolated so that its writing direction does not change the text around it. */
export const isolated = (text: string): Html => html`<bdi>${text}</bdi>`;

/** The length of a UUID, which is shown whole so that it can be copied. */
const SHORT_LENGTH_MAX = 36;

const HEAD_LENGTH = 11;

const TAIL_LENGTH = 8;

/** An id or a digest. Longer than a UUID it is shown without its middle, and whole in the title. */
export const shortened = (id: string): Html => {
  const characters = [...id];
  if (characters.length <= SHORT_LENGTH_MAX) return html`<bdi class="short">${id}</bdi>`;
  const short = `${characters.slice(0, HEAD_LENGTH).join('')}…${characters.slice(-TAIL_LENGTH).join('')}`;
  return html`<bdi class="short" title="${id}">${short}</bdi>`;
};

// Parts of console list pages by number: reading a page, a search by name, and the pager.

type Pagination = {
  total_items?: number;
  page_number?: number;
  total_pages?: number;
  total_is_capped?: true;
};

export type NumberedPage<Row> = { data: Row[]; pagination: Pagination };

/** The page number of a query; 1 for anything else. */
export const pageNumber = (text: string): string => (/^[1-9]\d{0,8}$/.test(text) ? text : '1');

/** Reads the page of a list that the query selects by name and number. @param url of the list in the API. */
export const readNamedPage = async <Row>(visit: Visit, url: string): Promise<NumberedPage<Row> & { name: string }> => {
  const name = visit.query('name');
  const page = pageNumber(visit.query('page'));
  const answer = await visit.api({ method: 'GET', url: addressOf(url, { name, page }) });
  return { name, ...bodyOf<NumberedPage<Row>>(answer) };
};

/** The form that searches a list by name. */
export const nameSearch = (path: string, name: string, placeholder: string): Html =>
  html`<form method="get" action="${path}" class="filters">
<label>Name<input type="search" name="name" value="${name}" maxlength="400" placeholder="${placeholder}"></label>
<div class="actions"><button class="second">Find</button>${name !== '' && html`<a href="${path}">All</a>`}</div>
</form>`;

/**
 * Undefined for a list of one page.
 * @param parameters of the page's URL, with the number under `name`.
 */
export const pagerOf = (
  { page_number = 1, total_pages = 1, total_items = 0, total_is_capped }: Pagination,
  to: { path: string; parameters: Record<string, string | undefined>; name?: string; label: string },
): Html | undefined => {
  if (total_pages < 2 && page_number < 2) return undefined;
  const { path, parameters, name = 'page', label } = to;
  const link = (number: number, text: string, isThere: boolean): Html =>
    isThere
      ? html`<a class="button second small" href="${addressOf(path, { ...parameters, [name]: number === 1 ? undefined : String(number) })}">${text}</a>`
      : html`<span></span>`;
  return html`<nav class="pager" aria-label="${label}">
${link(Math.min(page_number - 1, Math.max(total_pages, 1)), 'Previous', page_number > 1)}
<span class="quiet">Page ${page_number} of ${total_pages}, ${total_items}${total_is_capped && '+'} in all</span>
${link(page_number + 1, 'Next', page_number < total_pages)}
</nav>`;
};

// Finds the names of applications and members, for pages that show ids of actors. The server looks them up for each member that
// may read the record which has the id, so that no page asks the API for what its role lacks.

/** Finds names by ids of applications and users. An id without a name belongs to a deleted record. */
export const namesOf = (
  { ctx, session }: Visit,
  ids: readonly (string | undefined)[],
): Promise<ReadonlyMap<string, string>> => {
  const wanted = new Set(ids.filter((id) => id !== undefined));
  return findActorNames(ctx, ctx.db.for(session), [...wanted]);
};
