// Sends a typed request through the proxy as the member, and shows the response, with card numbers masked.
// Reads only as much of the body as a page shows.
import { type OutgoingHttpHeaders, STATUS_CODES } from 'node:http';
import type { Readable } from 'node:stream';
import { html, type Html } from '../../platform/http/html.ts';
import { runAtOnce } from '../../platform/json/slices.ts';
import { readAnswer } from '../proxy/bodies/take-body.ts';
import { bodyKindOf } from '../proxy/bodies/body-kind.ts';
import { textOf, readValue } from '../proxy/message.ts';
import { maskedText, type Shown, shownText, shownValue } from '../code/shown.ts';
import type { ReadRequest } from './proxy-request.ts';
import { badge, shownBlock } from './shell.ts';
import type { Visit } from './visit.ts';

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
export const headersToSend = ({ headers }: ReadRequest, route: Record<string, string>): Record<string, string> => {
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
