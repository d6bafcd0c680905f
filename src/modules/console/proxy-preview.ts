// Previews a typed request: as the destination would get it, with masks in place of values, and each expression with its token.
// Reads tokens masked, as the member. Nothing is sent.
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import type { Json } from '../../platform/json/json.ts';
import { shownText } from '../code/shown.ts';
import { bodyKindOf } from '../proxy/bodies/body-kind.ts';
import { findExpressions, type RequestPlaces } from '../proxy/bodies/expressions.ts';
import { cutText } from '../proxy/bodies/text-parts.ts';
import { type MaskOf, type Preview, previewRequest } from '../proxy/dry-run.ts';
import { type ExpansionRecord, EXPRESSION_TOKENS_MAX } from '../tokens/expressions/expansion.ts';
import { HIDDEN } from '../tokens/expressions/mask-expressions.ts';
import { clipped, isolated } from './list-parts.ts';
import type { Proxy } from './proxy-record.ts';
import type { ReadRequest } from './proxy-request.ts';
import { headersToSend } from './proxy-send.ts';
import { badge, may, notice, recordsTable, shownBlock, shownJson } from './shell.ts';
import { isSegment, tokenUrl } from './token-parts.ts';
import { errorLines, isSuccess, problemLines, type Visit } from './visit.ts';

/** An expression; `id` if it names a token. */
type Found = { place: string; expression: string; id?: string; problem?: string };

/** Token as a member reads it: `data` is its mask, and absent if it has none. */
type Token = { type: string; containers: string[]; data?: Json };

const EXPRESSION_SHOWN_MAX = 200;
const MASK_SHOWN_MAX = 500;

/** Larger bodies are searched in turns when they are sent, and a preview searches at once. */
const PREVIEWED_BYTES_MAX = 64 * 1024;

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

type LookedUp = Token | { problem: string };

/** Reads each token once, masked, as the member. */
const lookUp = async (visit: Visit, ids: Iterable<string>): Promise<Map<string, LookedUp>> => {
  const tokens = new Map<string, LookedUp>();
  for (const id of [...ids].slice(0, EXPRESSION_TOKENS_MAX)) {
    const answer = isSegment(id) ? await visit.api({ method: 'GET', url: tokenUrl(id) }) : undefined;
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
  if (token.data === undefined) return html`<span class="quiet">none</span>`;
  const text = typeof token.data === 'string' ? token.data : shownJson(token.data);
  return html`<span class="mask">${clipped(text, MASK_SHOWN_MAX)}</span>`;
};

const isFaulty = (found: Found, tokens: Map<string, LookedUp>): boolean => {
  const token = found.id === undefined ? undefined : tokens.get(found.id);
  return found.problem !== undefined || (token !== undefined && 'problem' in token);
};

/** The token as an expression sees it, with its mask in place of its value. */
const recordOf = (token: LookedUp | undefined): ExpansionRecord | undefined =>
  token && !('problem' in token) ? token : undefined;

const requestLines = ({ method, url, target, headers, body }: Preview): string =>
  [
    `${method} ${target} HTTP/1.1`,
    `Host: ${url.host}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    '',
    body === undefined ? '' : Buffer.from(body).toString('utf8'),
  ].join('\n');

type Previewed = { preview: Preview; problem?: never } | { preview?: never; problem: string };

const previewOf = (visit: Visit, asked: Asked, maskOf: MaskOf): Previewed => {
  const { ctx, session } = visit;
  const { proxy, request, route } = asked;
  const lists = [proxy?.allowed_hosts, session.caller.allowed_hosts].filter((list) => list !== undefined);
  const sent = {
    method: request.method,
    url: request.url,
    headers: Object.entries(headersToSend(request, route)),
    body: request.body === undefined ? undefined : Buffer.from(request.body, 'utf8'),
  };
  try {
    const stored = proxy && { destination_url: proxy.destination_url, hasExpressions: proxy.expressions === 'on' };
    return { preview: previewRequest(ctx, sent, stored, lists, maskOf) };
  } catch (error) {
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    return { problem: errorLines(error.errors ?? { '': [error.message] }).join(' ') };
  }
};

const verdictOf = (faults: number, { problem }: Previewed, expressions: number): Html => {
  if (faults > 0)
    return notice(
      'bad',
      `The proxy would refuse this request: ${faults === 1 ? 'one place does' : `${faults} places do`} not match.`,
    );
  if (problem !== undefined) return notice('bad', `The proxy would refuse this request. ${problem}`);
  const sentence =
    expressions === 0
      ? 'No expression was found. The request would be sent as it is.'
      : 'Every expression matches a token.';
  return notice('good', sentence);
};

const notes = (visit: Visit, { proxy, request }: Asked, hasTokens: boolean): Html[] => {
  const kind = request.body === undefined ? undefined : bodyKindOf(request.headers).kind;
  const lines = [
    proxy?.expressions === 'off' && 'Expressions are off: braces are data.',
    kind === 'bytes' && 'A body of this type is not searched for expressions. It would be sent as it is.',
    (kind === 'unread' || kind === 'unreadable') &&
      'A body of this type or charset is not searched for expressions. With one, the proxy refuses it.',
    hasTokens && !may(visit.session, 'token:use') && 'Your role may not use tokens: it cannot send this request.',
    proxy?.request_transform && 'The request transform changes this request before it leaves. A preview runs no code.',
  ];
  return lines.filter((line) => typeof line === 'string').map((line) => notice('warn', line));
};

/** A typed request, and the header that names its proxy or its destination. */
type Asked = { proxy: Proxy | undefined; request: ReadRequest; route: Record<string, string> };

/** The preview, for the page. */
export const showPreview = async (visit: Visit, asked: Asked): Promise<Html> => {
  const { proxy, request } = asked;
  if (Buffer.byteLength(request.body ?? '') > PREVIEWED_BYTES_MAX)
    return notice('bad', `A body of more than ${PREVIEWED_BYTES_MAX / 1024} KB has no preview. Nothing was sent.`);
  const found = proxy?.expressions === 'off' ? [] : findAll(request);
  const ids = new Set(found.flatMap(({ id }) => (id === undefined ? [] : [id])));
  const tokens = await lookUp(visit, ids);
  const tokenOf = ({ id }: Found) => (id === undefined ? undefined : tokens.get(id));
  const faults = found.filter((each) => isFaulty(each, tokens)).length;
  const previewed: Previewed = faults > 0 ? { problem: '' } : previewOf(visit, asked, (id) => recordOf(tokens.get(id)));
  return html`<section class="card result" id="preview" aria-labelledby="preview-heading"><h2 id="preview-heading">Preview</h2>
${verdictOf(faults, previewed, found.length)}
${notes(visit, asked, ids.size > 0)}
${ids.size > EXPRESSION_TOKENS_MAX && notice('bad', `A request may refer to ${EXPRESSION_TOKENS_MAX} tokens; this one refers to ${ids.size}.`)}
${previewed.preview && shownBlock('What the destination would get', shownText(requestLines(previewed.preview)), 'Cut off: the request is longer.')}
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
<p class="quiet">Nothing was sent. Masks are in place of values; ${HIDDEN} is a value without a mask. Looking up the tokens is in the log.</p></section>`;
};
