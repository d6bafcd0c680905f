// What pages that list have in common: fields to filter by with what is wrong beside them, and pages by cursor. Knows no
// endpoint.
import { html, type Html, type HtmlValue } from '../../http/html.ts';
import { faulty, fieldProblem } from './forms.ts';
import { addressOf, notice } from './shell.ts';
import { type ApiAnswer, bodyOf, problemLines } from './visit.ts';

/** Sentences under the names of the parameters they are about. */
export type Problems = Record<string, string[] | undefined>;

/** A page of a list as the API gives it. */
export type ListPage<Row> = {
  pagination: { total_items?: number; total_is_capped?: boolean; next?: string };
  data: Row[];
};

export type Listed<Row> = { page: ListPage<Row> | undefined; problems: Problems };

/** Records on a page. Where they are too large together for one answer of the API, so many fewer. */
const SIZES = [20, 4, 1] as const;

export const problemsOf = (answer: ApiAnswer): Problems => {
  const { errors } = (answer.body ?? {}) as { errors?: Problems };
  return errors ?? { '': problemLines(answer) };
};

/** A page, or what is wrong with what was asked for. @throws AppError for every other refusal. */
export const askPage = async <Row>(ask: (size: number) => Promise<ApiAnswer>): Promise<Listed<Row>> => {
  let answer: ApiAnswer | undefined;
  for (const size of SIZES) {
    answer = await ask(size);
    if (answer.status !== 413) break;
  }
  if (answer?.status === 400) return { page: undefined, problems: problemsOf(answer) };
  return { page: bodyOf<ListPage<Row>>(answer as ApiAnswer), problems: {} };
};

/** A page with nothing wrong is found, another one is a bad request. */
export const statusOf = ({ page }: Listed<unknown>): number => (page ? 200 : 400);

export const problemBeside = (name: string, problems: Problems): Html | undefined =>
  fieldProblem(`${name}-problem`, problems[name] ?? []);

/** The attributes of a control whose value is wrong. */
export const faultOf = (name: string, problems: Problems): Html | undefined =>
  faulty(`${name}-problem`, problems[name] ?? []);

/** An input with its label. */
export const field = (input: {
  name: string;
  label: string;
  value: string;
  problems: Problems;
  type?: 'text' | 'datetime-local';
}): Html => {
  const { name, label, value, problems, type = 'text' } = input;
  return html`<label>${label}<input name="${name}" type="${type}" value="${value}"${
    type === 'datetime-local' ? html` step="1"` : html` autocomplete="off" autocapitalize="off" spellcheck="false"`
  }${faultOf(name, problems)}>${problemBeside(name, problems)}</label>`;
};

/** What is wrong, but for what stands beside a field already. */
export const otherProblems = (problems: Problems, fields: readonly string[]): Html[] =>
  Object.entries(problems)
    .filter(([name]) => !fields.includes(name))
    .map(([name, lines = []]) => {
      // A cursor is no field: nobody typed it.
      const sentence = name === 'start' ? 'This page is not there. Begin again with the first page.' : lines.join(' ');
      return notice('bad', name === '' || name === 'start' ? sentence : `${name} ${sentence}`);
    });

/** How many there are, where the API says so: on first pages. */
export const totalOf = ({ pagination }: ListPage<unknown>): string | undefined => {
  const { total_items, total_is_capped } = pagination;
  if (total_items === undefined) return undefined;
  return `${total_items.toLocaleString('en')}${total_is_capped === true ? ' or more' : ''}`;
};

/** Ways on and back to the beginning. @param next how a link or a form leads on. */
export const cursorPagerOf = (first: HtmlValue, next: HtmlValue): Html | undefined =>
  first || next
    ? html`<nav class="pager" aria-label="Pages"><span>${first}</span><span>${next}</span></nav>`
    : undefined;

/** The pager of a page that is asked for by its address. @param cursor the name of the parameter that has the cursor. */
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

/** Of a text that may be long, as much as a page has room for. */
export const clipped = (text: string, lengthMax: number): string =>
  // Not within a pair of surrogates.
  text.length <= lengthMax ? text : `${text.slice(0, lengthMax).replace(/[\ud800-\udbff]$/, '')}…`;

/** Text of callers in a line of ours: whatever direction it has, it turns nothing around. */
export const foreign = (text: string): Html => html`<bdi>${text}</bdi>`;

/** First and last name as one; empty where there is neither. */
export const fullName = ({ first_name, last_name }: { first_name?: string; last_name?: string }): string =>
  [first_name, last_name].filter(Boolean).join(' ');

/** A UUID stands there whole, so that it can be copied. */
const SHORT_LENGTH_MAX = 36;
const HEAD_LENGTH = 11;
const TAIL_LENGTH = 8;

/** An id or a digest, without its middle where it is longer than a UUID. The whole stands in the title. */
export const shortened = (id: string): Html => {
  const characters = [...id];
  if (characters.length <= SHORT_LENGTH_MAX) return html`<bdi class="short">${id}</bdi>`;
  const short = `${characters.slice(0, HEAD_LENGTH).join('')}…${characters.slice(-TAIL_LENGTH).join('')}`;
  return html`<bdi class="short" title="${id}">${short}</bdi>`;
};
