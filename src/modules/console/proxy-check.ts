// Checks a typed proxy request without sending it: finds its expressions and looks up their tokens.
// Shows type, container and mask of a token, never a value.
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { bodyKindOf } from '../proxy/bodies/body-kind.ts';
import { findExpressions, type RequestPlaces } from '../proxy/bodies/expressions.ts';
import { cutText } from '../proxy/bodies/text-parts.ts';
import { clipped, isolated } from './list-parts.ts';
import type { ReadRequest } from './proxy-request.ts';
import { badge, notice, recordsTable, shownJson } from './shell.ts';
import { isSuccess, problemLines, type Visit } from './visit.ts';

/** An expression; `id` if it names a token. */
type Found = { place: string; expression: string; id?: string; problem?: string };

type Token = { type: string; containers: string[]; mask?: unknown };

const EXPRESSION_SHOWN_MAX = 200;
const MASK_SHOWN_MAX = 500;

const nothing: RequestPlaces = { path: '', query: '', headers: [], body: undefined };

/** The same rule as in modules/tokens/expressions/expansion.ts. */
const idIn = (expression: string): string => {
  const [head = ''] = expression.slice(2, -2).split('|');
  return head.trim().replace(/^token: */, '');
};

/** The distinct expressions of one place, in order. */
const findAt = (place: string, where: Partial<RequestPlaces>): Found[] => {
  try {
    const { references } = findExpressions({ ...nothing, ...where });
    const expressions = [...references.templates.keys()].flatMap((text) =>
      cutText(text, place, references).flatMap((cut) => (cut.isExpression ? [cut.text] : [])),
    );
    return [...new Set(expressions)].map((expression) => ({ place, expression, id: idIn(expression) }));
  } catch (error) {
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    const problems = Object.entries(error.errors ?? { [place]: [error.message] });
    return problems.map(([at, sentences]) => ({ place: at, expression: '', problem: sentences.join(' ') }));
  }
};

const findAll = ({ target, headers, body }: ReadRequest): Found[] => [
  ...findAt('path', { path: target.path }),
  ...findAt('query', { query: target.query }),
  ...headers.flatMap((header) => findAt(`headers.${header[0]}`, { headers: [header] })),
  ...(body === undefined
    ? []
    : findAt('body', { body: { kind: bodyKindOf(headers), bytes: Buffer.from(body, 'utf8') } })),
];

/** The limit of one request (EXPRESSION_TOKENS_MAX). Further tokens are not looked up. */
const TOKENS_MAX = 100;

type LookedUp = Token | { problem: string };

/** Reads each token once, masked, as the member. */
const lookUp = async (visit: Visit, ids: Iterable<string>): Promise<Map<string, LookedUp>> => {
  const tokens = new Map<string, LookedUp>();
  for (const id of [...ids].slice(0, TOKENS_MAX)) {
    // A dot segment would change the path of the API request.
    const isPath = id === '.' || id === '..';
    const answer = isPath ? undefined : await visit.api({ method: 'GET', url: `/tokens/${encodeURIComponent(id)}` });
    if (answer === undefined || answer.status === 404)
      tokens.set(id, { problem: 'No token has this id, or it has expired.' });
    else if (isSuccess(answer)) tokens.set(id, answer.body as Token);
    else tokens.set(id, { problem: problemLines(answer).join(' ') });
  }
  return tokens;
};

const tokenCell = (found: Found, token: LookedUp | undefined): HtmlValue => {
  const problem = found.problem ?? (token && 'problem' in token ? token.problem : undefined);
  if (problem !== undefined) return [badge('no match', 'bad'), html` ${problem}`];
  return token && 'type' in token
    ? html`${badge(token.type, 'good')} ${token.containers.map((container) => html`<code>${container}</code> `)}`
    : undefined;
};

const maskCell = (token: LookedUp | undefined): HtmlValue => {
  if (!token || 'problem' in token) return undefined;
  if (token.mask === undefined) return html`<span class="quiet">none</span>`;
  const text = typeof token.mask === 'string' ? token.mask : shownJson(token.mask);
  return html`<span class="mask">${clipped(text, MASK_SHOWN_MAX)}</span>`;
};

const isFaulty = (found: Found, tokens: Map<string, LookedUp>): boolean => {
  const token = found.id === undefined ? undefined : tokens.get(found.id);
  return found.problem !== undefined || (token !== undefined && 'problem' in token);
};

/** The result of the check, for the page. */
export const checkRequest = async (visit: Visit, request: ReadRequest): Promise<Html> => {
  const found = findAll(request);
  const ids = new Set(found.flatMap(({ id }) => (id === undefined ? [] : [id])));
  const tokens = await lookUp(visit, ids);
  const tokenOf = ({ id }: Found) => (id === undefined ? undefined : tokens.get(id));
  const kind = request.body === undefined ? undefined : bodyKindOf(request.headers).kind;
  const faults = found.filter((each) => isFaulty(each, tokens)).length;
  const verdict =
    faults > 0
      ? notice(
          'bad',
          `The proxy would refuse this request: ${faults === 1 ? 'one place does' : `${faults} places do`} not match.`,
        )
      : notice(
          'good',
          found.length === 0
            ? 'No expression was found. The request would be sent as it is.'
            : 'Every expression matches a token.',
        );
  return html`<section class="card" aria-labelledby="check-heading"><h2 id="check-heading">Check</h2>
${verdict}
${kind === 'bytes' && notice('warn', 'A body of this type is not searched for expressions. It would be sent as it is.')}
${(kind === 'unread' || kind === 'unreadable') && notice('warn', 'A body of this type or charset is not searched for expressions. With one, the proxy refuses it.')}
${ids.size > TOKENS_MAX && notice('bad', `A request may refer to ${TOKENS_MAX} tokens; this one refers to ${ids.size}.`)}
${
  found.length > 0 &&
  recordsTable('Expressions', found, [
    { label: 'Where', cell: ({ place }) => html`<code>${clipped(place, EXPRESSION_SHOWN_MAX)}</code>` },
    {
      label: 'Expression',
      cell: ({ expression }) =>
        expression !== '' && html`<code>${isolated(clipped(expression, EXPRESSION_SHOWN_MAX))}</code>`,
    },
    { label: 'Token', cell: (each) => tokenCell(each, tokenOf(each)) },
    { label: 'Mask', cell: (each) => maskCell(tokenOf(each)) },
  ])
}
<p class="quiet">Nothing was sent. Looking up the tokens is in the log.</p></section>`;
};
