// Finds tokens for the arguments of a test or the body of a request: the newest, or those whose mask ends in four characters, each with its expression.
import { html, type Html } from '../../platform/http/html.ts';
import { problemsNotice } from './forms.ts';
import { badge, may, recordsTable } from './shell.ts';
import { maskLine, type ShownToken } from './token-parts.ts';
import { isSuccess, problemLines, type Visit } from './visit.ts';

const PICKED_MAX = 10;

/** What a search takes in quotation marks as it is. */
const LAST4 = /^[^\s"\\*]{1,4}$/u;

/** The button and, after it was pressed, what it found. Undefined for a role that finds no tokens. */
export const pickerFields = ({ session }: Pick<Visit, 'session'>, found: Html | undefined): Html | undefined =>
  may(session, 'token:search')
    ? html`<div class="search"><input name="last4" maxlength="4" aria-label="Last four" placeholder="Last four, or none for the newest" autocomplete="off"><button name="do" value="pick" class="second" formnovalidate>Find a token</button></div>${found}`
    : undefined;

const tokensTable = (tokens: readonly ShownToken[]): Html =>
  recordsTable('Tokens to use', tokens, [
    { label: 'Masked value', cell: maskLine },
    { label: 'Type', cell: ({ type }) => badge(type) },
    { label: 'Expression', cell: ({ id }) => html`<code data-copy="Copy"><bdi>{{ ${id} }}</bdi></code>` },
  ]);

/** Searches by POST to the API: the four characters stand in no URL. */
export const findTokens = async (visit: Visit, typed: string): Promise<Html> => {
  const last4 = typed.trim();
  if (last4 !== '' && !LAST4.test(last4))
    return problemsNotice('No token was looked for.', ['These are not the last four characters of a mask.']);
  const answer = await (last4 === ''
    ? visit.api({ method: 'GET', url: `/tokens?size=${PICKED_MAX}` })
    : visit.api({ method: 'POST', url: '/tokens/search', json: { query: `last4:"${last4}"`, size: PICKED_MAX } }));
  if (!isSuccess(answer)) return problemsNotice('No token was found.', problemLines(answer));
  const { data } = answer.body as { data: ShownToken[] };
  return data.length === 0 ? html`<p class="quiet">No tokens match.</p>` : tokensTable(data);
};
