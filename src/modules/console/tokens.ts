// The token list page: filters and searches tokens, newest first, with masked values, and deletes all that a search found.
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { DELETED_MAX } from '../tokens/delete-by-search.ts';
import { SEARCH_QUERY_LENGTH_MAX } from '../tokens/search-query.ts';
import { tokenTypeNames } from '../tokens/token-types.ts';
import { fieldProblem, invalidAttributes, problemsNotice, uuid } from './forms.ts';
import {
  choiceField,
  cursorPager,
  cursorPagerOf,
  fetchPage,
  field,
  type FieldSentences,
  invalidAttributesOf,
  isolated,
  type Listed,
  type ListPage,
  optionsOf,
  otherProblems,
  problemOf,
  shortened,
  statusOf,
  totalOf,
} from './list-parts.ts';
import { addressOf, badge, consolePage, csrfField, empty, may, notice, recordsTable, time } from './shell.ts';
import { tokenPages } from './token-page.ts';
import { maskLine, type ShownToken, tokenLink } from './token-parts.ts';
import { type Console, isSuccess, type Outcome, problemLines, type Submission, type Visit } from './visit.ts';

// Deletes all tokens that a search has found, by the operation of the API: after a typed confirmation, all of them or none.

const DELETE_PATH = '/console/tokens/search/delete';

const tokensText = (count: number): string => `${count} ${count === 1 ? 'token' : 'tokens'}`;

/** What a person types, so that the number is read. */
const confirmationOf = (count: number): string => `delete ${tokensText(count)}`;

type DeleteProblem = { above?: Html; typed?: string[] };

/** Below the first page of a search. @param at before the search: what is created or changed since is not deleted. Undefined where nothing was found, and for a role that deletes no tokens. */
const deleteCard = (
  { session }: Visit,
  query: string,
  { page: { pagination }, at }: { page: ListPage<ShownToken>; at: Date },
  problem: DeleteProblem = {},
): Html | undefined => {
  const { total_items: count = 0, total_is_capped } = pagination;
  if (count === 0 || !may(session, 'token:delete')) return undefined;
  const typed = problem.typed ?? [];
  const limit = `At most ${DELETED_MAX.toLocaleString('en')} tokens are deleted at once`;
  if (total_is_capped === true || count > DELETED_MAX)
    return html`<p class="quiet">${limit}: narrow the search to delete what it finds.</p>`;
  return html`<details class="card"${problem.typed !== undefined && html` open`}><summary>Delete all ${tokensText(count)}</summary>
<p>The values are gone for good, with their security codes and links: all that this search found, or none if one of them, or their number, has changed by then. ${limit}; so many take some seconds.</p>
<form method="post" action="${DELETE_PATH}">${csrfField(session)}<input type="hidden" name="query" value="${query}"><input type="hidden" name="count" value="${count}"><input type="hidden" name="at" value="${at.toISOString()}">
<label>To confirm, type <code>${confirmationOf(count)}</code><input name="typed" required maxlength="40" autocomplete="off" autocapitalize="off" spellcheck="false"${invalidAttributes('typed-problem', typed)}>${fieldProblem('typed-problem', typed)}</label>
<button class="danger">Delete</button></form></details>`;
};

/** From the answer alone, so that no URL says what was deleted. A reload asks again for as many, which are gone. */
const deletedPage = ({ session, request }: Visit, count: number): string => {
  const log = addressOf('/console/logs', { operation: 'delete', trace_id: request.id });
  return consolePage(session, {
    title: 'Deleted',
    section: 'Tokens',
    main: html`<p class="quiet"><a href="/console/tokens">Tokens</a></p><h1>Deleted</h1>
${notice('good', `${tokensText(count)} ${count === 1 ? 'was' : 'were'} deleted.`)}
${may(session, 'log:read') && html`<p><a href="${log}">An entry in the log for each</a></p>`}`,
  });
};

/** @param showSearch the page of the search again, with what is wrong. @param expand the query as the API takes it. */
const deleteFound = async (
  submission: Submission,
  {
    showSearch,
    expand,
  }: { showSearch: (problem: DeleteProblem) => Promise<string>; expand: (query: string) => string },
): Promise<Outcome> => {
  const count = Number(/^[1-9]\d{0,4}$/.exec(submission.field('count'))?.[0] ?? 0);
  if (count === 0 || submission.field('typed').trim().toLowerCase() !== confirmationOf(count)) {
    const sentence = 'This is not the text above. Nothing was deleted.';
    return { status: 422, page: await showSearch({ typed: [sentence] }) };
  }
  const json = {
    query: expand(submission.field('query')),
    expected_count: count,
    unchanged_since: submission.field('at'),
  };
  const answer = await submission.api({ method: 'POST', url: '/tokens/delete-by-search', json });
  if (isSuccess(answer)) return deletedPage(submission, (answer.body as { deleted_count: number }).deleted_count);
  const above = problemsNotice('Nothing was deleted.', problemLines(answer));
  return { status: answer.status, page: await showSearch({ above }) };
};

const PATH = '/console/tokens';

const SEARCH_PATH = '/console/tokens/search';

const filterNames = ['type', 'id', 'key', 'value'] as const;

type Filter = Record<(typeof filterNames)[number], string>;

const isFiltering = (filter: Filter): boolean => filterNames.some((name) => filter[name] !== '');

const noFilter: Filter = { type: '', id: '', key: '', value: '' };

const examples = [
  ['type:card AND container:/pci/*', 'Cards in containers below /pci/.'],
  ['metadata.order:4711', 'By metadata: the whole value, in any case.'],
  ['last4:4242', 'By the last four characters that the mask shows.'],
  ['created_at:[2026-01-01 TO *] AND NOT type:token', 'Created since then, and not generic.'],
  ['(type:bank OR type:card) AND NOT container:/pci/low/', 'Of either type, but not in this container.'],
] as const;

/** Sends by POST, because a search may contain data and URLs are stored in many places. */
const searchForm = ({ session }: Visit, query: string, problems: FieldSentences): Html => html`<div class="card">
<form method="post" action="${SEARCH_PATH}" role="search">${csrfField(session)}
<label for="query">Search</label>
<div class="search"><input id="query" type="search" name="query" value="${query}" required maxlength="${SEARCH_QUERY_LENGTH_MAX}" placeholder="type:card AND metadata.order:4711" autocomplete="off" autocapitalize="off" spellcheck="false"${invalidAttributesOf('query', problems)}><button>Search</button></div>
${problemOf('query', problems)}
</form>
<details><summary>How to search</summary>
<p>An id or a value of a search index may stand alone. Other terms are <code>field:value</code>, with <code>"quotation marks"</code> around a value or a key that has spaces, as in <code>metadata."order id":4711</code>, joined by <code>AND</code>, <code>OR</code>, <code>NOT</code> and parentheses. Fields: <code>id</code>, <code>type</code>, <code>data</code>, <code>fingerprint</code>, <code>last4</code>, <code>brand</code>, <code>expires</code>, <code>container</code>, <code>metadata.KEY</code>, <code>created_by</code>, <code>created_at</code>, <code>modified_by</code>, <code>modified_at</code>. Values match as a whole; a container may end in <code>*</code>, dates may be ranges.</p>
<form method="post" action="${SEARCH_PATH}">${csrfField(session)}<ul class="examples">${examples.map(
  ([example, meaning]) =>
    html`<li><button class="second small mono" name="query" value="${example}">${example}</button> <span class="quiet">${meaning}</span></li>`,
)}</ul></form>
</details></div>`;

const filterForm = (filter: Filter, problems: FieldSentences): Html => {
  const isFiltered = isFiltering(filter);
  return html`<details class="card"${attribute('open', isFiltered)}><summary>Filter by type, id or metadata</summary>
<form action="${PATH}"><div class="filters even">
${choiceField(
  { name: 'type', label: 'Type', problems },
  optionsOf(
    tokenTypeNames.map((name) => [name, name] as const),
    filter.type,
  ),
)}
${field({ name: 'id', label: 'Id', value: filter.id, problems })}
${field({ name: 'key', label: 'Metadata key', value: filter.key, problems })}
${field({ name: 'value', label: 'Metadata value', value: filter.value, problems })}
</div><div class="actions"><button>Filter</button>${isFiltered && html`<a class="button second" href="${PATH}">All tokens</a>`}</div>
</form></details>`;
};

const tokensTable = (tokens: readonly ShownToken[]): Html =>
  recordsTable('Tokens', tokens, [
    { label: 'Id', cell: ({ id }) => tokenLink(id) },
    { label: 'Type', cell: ({ type }) => badge(type) },
    { label: 'Masked value', cell: maskLine },
    { label: 'Container', cell: ({ containers }) => isolated(containers.join(', ')) },
    {
      label: 'Fingerprint',
      cell: ({ fingerprint }) =>
        fingerprint !== undefined && html`<span class="mono quiet">${shortened(fingerprint)}</span>`,
    },
    { label: 'Created', cell: ({ created_at }) => time(created_at) },
  ]);

type Shown = {
  listed: Listed<ShownToken>;
  query: string;
  filter: Filter;
  none: HtmlValue;
  pager: Html | undefined;
  done?: Html | undefined;
};

const pageOf = (visit: Visit, { listed, query, filter, none, pager, done }: Shown): Outcome & { page: string } => {
  const { page, problems } = listed;
  const total = page && totalOf(page);
  const main = html`<div class="heading"><h1>Tokens</h1>${total !== undefined && html`<span class="quiet">${total} ${query !== '' || isFiltering(filter) ? 'found' : 'in all'}</span>`}</div>
${done}
${searchForm(visit, query, problems)}
${filterForm(filter, problems)}
${otherProblems(problems, ['query', ...filterNames])}
${page && (page.data.length > 0 ? tokensTable(page.data) : empty(none))}
${pager}`;
  return { status: statusOf(listed), page: consolePage(visit.session, { title: 'Tokens', section: 'Tokens', main }) };
};

const listTokens = async (
  visit: Visit,
  { type, id, key, value }: Filter,
  start: string,
): Promise<Listed<ShownToken>> => {
  if (key === '' && value !== '') return { page: undefined, problems: { key: ['must be given with a value'] } };
  const metadata = key === '' ? '' : `&${new URLSearchParams({ [`metadata.${key}`]: value }).toString()}`;
  const { page, problems } = await fetchPage<ShownToken>((size) =>
    visit.api({ method: 'GET', url: `${addressOf('/tokens', { size: String(size), type, id, start })}${metadata}` }),
  );
  // The API names one parameter, which has two fields here.
  const { [`metadata.${key}`]: ofEntry, ...others } = problems;
  return { page, problems: ofEntry ? { ...others, value: ofEntry } : others };
};

const showList = async (visit: Visit): Promise<Outcome> => {
  const filter = Object.fromEntries(filterNames.map((name) => [name, visit.query(name)])) as Filter;
  const start = visit.query('start');
  const { docsUrl } = visit.session;
  const listed = await listTokens(visit, filter, start);
  return pageOf(visit, {
    listed,
    query: '',
    filter,
    none: isFiltering(filter)
      ? 'No tokens match.'
      : html`<p>No tokens yet.</p><p>Applications create them by <code>POST /tokenize</code>${docsUrl !== undefined && html`: see <a href="${docsUrl}">the reference</a>`}.</p>`,
    pager: cursorPager(PATH, filter, { start, page: listed.page }),
    done: visit.query('done') === 'deleted' ? notice('good', 'The token was deleted.') : undefined,
  });
};

/** Longer text is no pasted id or indexed value. Two times this length and the field names fit into a query. */
const BARE_TEXT_LENGTH_MAX = 80;

const bareText = /^[^\s:"()\\*[\]{}!-][^\s:"()\\*[\]{}]*$/u;

/**
 * The query for the API. Text without a field, such as a pasted id or the last four digits, means an id or a data value. A UUID means an
 * id alone: a search for values needs a new second factor, and stands in the log.
 */
const expandQuery = (query: string): string => {
  const text = query.trim();
  if (uuid.test(text)) return `id:"${text}"`;
  return text.length <= BARE_TEXT_LENGTH_MAX && bareText.test(text) ? `id:"${text}" OR data:"${text}"` : query;
};

const search = async (submission: Submission, problem?: DeleteProblem): Promise<Outcome & { page: string }> => {
  const { session } = submission;
  const query = submission.field('query');
  const start = problem ? '' : submission.field('start');
  const at = submission.ctx.now();
  const listed = await fetchPage<ShownToken>((size) =>
    submission.api({
      method: 'POST',
      url: '/tokens/search',
      json: { query: expandQuery(query), size, ...(start !== '' && { start }) },
    }),
  );
  const next = listed.page?.pagination.next;
  const turn = (text: string, cursor?: string): Html =>
    html`<form method="post" action="${SEARCH_PATH}">${csrfField(session)}<input type="hidden" name="query" value="${query}">${
      cursor !== undefined && html`<input type="hidden" name="start" value="${cursor}">`
    }<button class="second small">${text}</button></form>`;
  const pager = cursorPagerOf(start !== '' && turn('First page'), next !== undefined && turn('Next page', next));
  return pageOf(submission, {
    listed,
    query,
    filter: noFilter,
    none: 'No tokens match.',
    pager: html`${pager}${start === '' && listed.page && deleteCard(submission, query, { page: listed.page, at }, problem)}<p><a href="${PATH}">All tokens</a></p>`,
    done: problem?.above,
  });
};

export const tokensPages = (console: Console): void => {
  console.get(PATH, showList);
  console.post(SEARCH_PATH, (submission) => search(submission));
  console.postAfterCode(
    DELETE_PATH,
    (submission) =>
      deleteFound(submission, {
        expand: expandQuery,
        showSearch: async (problem) => (await search(submission, problem)).page,
      }),
    ['query'],
  );
  // A search is not part of the URL, so a reload shows the list.
  for (const path of [SEARCH_PATH, DELETE_PATH]) console.get(path, async () => ({ seeOther: PATH }));
  tokenPages(console);
};
