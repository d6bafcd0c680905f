// Tries a typed request of a proxy: previews it with masks in place of values, or sends it as the member.
// A preview sends nothing, and reads tokens masked. Of a response it shows a part, with card numbers masked.
import { type OutgoingHttpHeaders, STATUS_CODES } from 'node:http';
import type { Readable } from 'node:stream';
import { AppError } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import type { Json } from '../../platform/json/json.ts';
import { runAtOnce } from '../../platform/json/slices.ts';
import { maskedText, type Shown, shownText, shownValue } from '../code/shown.ts';
import { bodyKindOf } from '../proxy/bodies/body-kind.ts';
import { findExpressions, type RequestPlaces } from '../proxy/bodies/expressions.ts';
import { readAnswer } from '../proxy/bodies/take-body.ts';
import { cutText } from '../proxy/bodies/text-parts.ts';
import { type MaskOf, type Preview, previewRequest } from '../proxy/dry-run.ts';
import { readValue, textOf } from '../proxy/message.ts';
import { type ExpansionRecord, EXPRESSION_TOKENS_MAX, HIDDEN } from '../tokens/expressions/expansion.ts';
import { clipped, isolated } from './list-parts.ts';
import type { Proxy } from './proxy-record.ts';
import type { ReadRequest } from './proxy-request.ts';
import { badge, may, notice, recordsTable, shownBlock, shownJson } from './shell.ts';
import { isSegment, tokenUrl } from './token-parts.ts';
import { errorLines, isSuccess, problemLines, type Visit } from './visit.ts';

// Sends a typed request through the proxy as the member, and shows the response, with card numbers masked.
// Reads only as much of the body as a page shows.

/** More than a page shows, and much more than an error response of the proxy has. */
const ANSWER_BYTES_MAX = 65_536;

/** A slow or endless response is shown as far as it arrived within this time. */
const ANSWER_MS = 3_000;

type ProxyProblem = { title?: unknown; detail?: unknown; errors?: unknown };

/** The shown body: `none` without a body, `bytes` for binary data. */
type Body = Shown | 'none' | 'bytes';

type Sent = {
  status: number;
  /** Undefined if the destination did not respond. */
  destination_status: number | undefined;
  type: string;
  length: string | undefined;
  problem: ProxyProblem | undefined;
  body: Body;
  /** The line where a transform threw. */
  line: string | undefined;
  ms: number;
};

/** The user agent, unless the request has one. */
const USER_AGENT = 'strongroom-console';

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** The beginning of a body. */
type Start = { bytes: Buffer; isCut: boolean };

const readStart = async (stream: Readable): Promise<Start> => {
  const chunks: Buffer[] = [];
  let length = 0;
  let isCut = false;
  const timer = setTimeout(() => stream.destroy(), ANSWER_MS);
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      length += chunk.byteLength;
      if (length > ANSWER_BYTES_MAX) break;
    }
  } catch {
    // The stream broke off, or the time is over.
    isCut = true;
  } finally {
    clearTimeout(timer);
  }
  return { bytes: Buffer.concat(chunks).subarray(0, ANSWER_BYTES_MAX), isCut: isCut || length > ANSWER_BYTES_MAX };
};

/** The error of the proxy; undefined for any other body. */
const problemIn = ({ bytes }: Start): ProxyProblem | undefined => {
  try {
    const parsed = JSON.parse(bytes.toString('utf8')) as unknown;
    const problem = isObject(parsed) ? parsed['proxy_error'] : undefined;
    return isObject(problem) ? problem : undefined;
  } catch {
    return undefined;
  }
};

const bodyIn = (named: OutgoingHttpHeaders, { bytes, isCut }: Start): Body => {
  if (bytes.byteLength === 0 && !isCut) return 'none';
  const headers = Object.entries(named).flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name, String(each)]),
  );
  const { message, unread } = runAtOnce(readAnswer({ headers, body: bytes }, isCut));
  const text = textOf(message) ?? '';
  if (unread !== undefined || bodyKindOf(message.headers).kind === 'bytes' || text.includes('\0')) return 'bytes';
  // Half of a card number is not recognised as one, so trailing digits are dropped.
  if (isCut) return { text: shownText(maskedText(text).replace(/[\d -]{1,40}\ufffd?$/, '')).text, isCut };
  const { value, problem, loss } = runAtOnce(readValue(message));
  return typeof value === 'string' || problem || loss ? shownText(text) : shownValue(value);
};

/** The type without parameters, whose text the destination chooses. */
const mediaType = (value: unknown): string => {
  const [, type = ''] = /^\s*([a-z]{1,30}\/[a-z0-9.+-]{1,80})\s*(?:;|$)/i.exec(String(value ?? '')) ?? [];
  return maskedText(type);
};

/** The headers of the request to the proxy. @param route the header that names the proxy or the destination. */
const headersToSend = ({ headers }: ReadRequest, route: Record<string, string>): Record<string, string> => {
  const hasAgent = headers.some(([name]) => name.toLowerCase() === 'user-agent');
  return { ...(!hasAgent && { 'user-agent': USER_AGENT }), ...Object.fromEntries(headers), ...route };
};

const forward = async ({ actAs }: Visit, request: ReadRequest, route: Record<string, string>): Promise<Sent> => {
  const { method, url, body } = request;
  const began = performance.now();
  const answer = await actAs({
    method,
    url,
    headers: headersToSend(request, route),
    ...(body !== undefined && { payload: Buffer.from(body, 'utf8') }),
    payloadAsStream: true,
  });
  const ms = performance.now() - began;
  const stream = answer.stream();
  // Reading has ended by then, and its own error was handled.
  stream.on('error', () => undefined);
  try {
    const statusHeader = answer.headers['svc-proxy-destination-status'];
    const destination_status = statusHeader === undefined ? undefined : Number(statusHeader);
    const start = await readStart(stream);
    return {
      status: answer.statusCode,
      destination_status,
      type: mediaType(answer.headers['content-type']),
      length: /^\d{1,15}$/.exec(String(answer.headers['content-length'] ?? ''))?.[0],
      line: /^\d{1,6}$/.exec(String(answer.headers['svc-code-line'] ?? ''))?.[0],
      problem: destination_status === undefined ? problemIn(start) : undefined,
      body: bodyIn(answer.headers, start),
      ms,
    };
  } finally {
    // Destroyed, so that the connection to the destination is closed too.
    (answer.raw.res as unknown as { destroy(): void }).destroy();
    stream.destroy();
  }
};

const text = (value: unknown): string | undefined => (typeof value === 'string' ? maskedText(value) : undefined);

const problemBlock = ({ title, detail, errors }: ProxyProblem, line: string | undefined): Html => {
  const lines = Object.entries(isObject(errors) ? errors : {}).flatMap(([place, sentences]) =>
    (Array.isArray(sentences) ? sentences : []).map(
      (sentence) => `${place === '' ? '' : `${place}: `}${String(sentence)}`,
    ),
  );
  return html`<p><strong>${text(detail) ?? text(title)}</strong>${line !== undefined && ` in line ${line} of the transform`}</p>
${lines.length > 0 && html`<ul class="words">${lines.map((line) => html`<li>${maskedText(line)}</li>`)}</ul>`}`;
};

const statusBadge = (status: number): Html =>
  badge(`${status} ${STATUS_CODES[status] ?? ''}`.trim(), status < 400 ? 'good' : 'bad');

const sentPart = ({ status, destination_status, type, length, ms }: Sent): Html => html`<dl>
<dt>Destination</dt><dd>${destination_status === undefined ? 'did not respond' : statusBadge(destination_status)}</dd>
${destination_status !== status && html`<dt>Response of the proxy</dt><dd>${statusBadge(status)}</dd>`}
<dt>Took</dt><dd>${Math.round(ms)} ms</dd>
${destination_status !== undefined && html`<dt>Content type</dt><dd>${type === '' ? 'none' : type}</dd>`}
${destination_status !== undefined && length !== undefined && html`<dt>Length</dt><dd>${Number(length).toLocaleString('en')} bytes</dd>`}
</dl>`;

const MAY_BE_DONE = 'The destination may have processed the request, even if it failed on the way.';

const CUT = `Cut off: at most ${ANSWER_BYTES_MAX / 1024} KB are shown, and what came within ${ANSWER_MS / 1000} seconds.`;

const MASKED =
  'Text that looks like a card number is masked here, and so is a security code in JSON. JSON is indented, and its long numbers may be rounded. Everything else is as received, and may repeat the values that were sent.';

const bodyPart = (body: Body): Html => {
  if (body === 'none') return html`<p class="quiet">The response has no body.</p>`;
  if (body === 'bytes') return html`<p class="quiet">The body of the response is not text.</p>`;
  return html`${shownBlock('Body of the response', body, CUT)}<p class="quiet">${MASKED}</p>`;
};

/** Sends the request. @param route the header that names the proxy or the destination. @returns the response as HTML. */
export const sendRequest = async (visit: Visit, request: ReadRequest, route: Record<string, string>): Promise<Html> => {
  const sent = await forward(visit, request, route);
  const { destination_status, problem, body } = sent;
  const isFine = destination_status !== undefined && destination_status < 400;
  return html`<section class="card result" id="sent" aria-labelledby="sent-heading"><h2 id="sent-heading" role="${isFine ? 'status' : 'alert'}">${destination_status === undefined ? 'No response from the destination' : 'Sent'}</h2>
${sentPart(sent)}
${problem && problemBlock(problem, sent.line)}
${destination_status === undefined && !problem && html`<p>Code of the proxy responded in place of the destination.</p>`}
${problem ? html`<p class="quiet">${MAY_BE_DONE}</p>` : bodyPart(body)}
</section>`;
};

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
