// Deletes all tokens that a search has found, by the operation of the API: after a typed confirmation, all of them or none.
import { html, type Html } from '../../platform/http/html.ts';
import { DELETED_MAX } from '../tokens/delete-by-search.ts';
import { fieldProblem, invalidAttributes, problemsNotice } from './forms.ts';
import type { ListPage } from './list-parts.ts';
import { addressOf, consolePage, csrfField, may, notice } from './shell.ts';
import type { ShownToken } from './token-parts.ts';
import { isSuccess, type Outcome, problemLines, type Submission, type Visit } from './visit.ts';

export const DELETE_PATH = '/console/tokens/search/delete';

const tokensText = (count: number): string => `${count} ${count === 1 ? 'token' : 'tokens'}`;

/** What a person types, so that the number is read. */
const confirmationOf = (count: number): string => `delete ${tokensText(count)}`;

export type DeleteProblem = { above?: Html; typed?: string[] };

/** Below the first page of a search. @param at before the search: what is created or changed since is not deleted. Undefined where nothing was found, and for a role that deletes no tokens. */
export const deleteCard = (
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
export const deleteFound = async (
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
