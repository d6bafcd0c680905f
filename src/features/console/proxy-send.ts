// Sends a typed request through the proxy, as the member, with raw values in it, and shows the answer: masked where it looks like
// a card number, as much as fits a page. No more of a body is read, and the connection is let go of at once.
import { type OutgoingHttpHeaders, STATUS_CODES } from 'node:http';
import type { Readable } from 'node:stream';
import { html, type Html } from '../../http/html.ts';
import { shapeProblem } from '../../json-shape.ts';
import { readAnswer } from '../../proxy/answer-text.ts';
import { bodyKindOf } from '../../proxy/body-kind.ts';
import { textOf, valueOf } from '../../proxy/message.ts';
import { maskedText, type Shown, shownText, shownValue } from '../../runtime/shown.ts';
import type { ReadRequest } from './proxy-request.ts';
import { badge, shownBlock } from './shell.ts';
import type { Console, Visit } from './visit.ts';

/** More than a page shows, and far above a problem of ours. */
const ANSWER_BYTES_MAX = 65_536;
/** An answer that comes slowly, or never ends, is shown as far as it came. */
const ANSWER_MS = 3_000;

type ProxyProblem = { title?: unknown; detail?: unknown; errors?: unknown };

/** What is shown of a body: `none` where there is none, `bytes` where it is no text. */
type Body = Shown | 'none' | 'bytes';

type Sent = {
  status: number;
  /** Undefined where the destination did not answer. */
  destination_status: number | undefined;
  type: string;
  length: string | undefined;
  problem: ProxyProblem | undefined;
  body: Body;
  /** Where a transform threw it. */
  line: string | undefined;
  ms: number;
};

/** Who asks, where no header of the request says it. */
const USER_AGENT = 'strongroom-console';

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** The beginning of a body. */
type Start = { bytes: Buffer; isCut: boolean };

const readStart = async (stream: Readable): Promise<Start> => {
  const pieces: Buffer[] = [];
  let length = 0;
  let isCut = false;
  const timer = setTimeout(() => stream.destroy(), ANSWER_MS);
  try {
    for await (const piece of stream as AsyncIterable<Buffer>) {
      pieces.push(piece);
      length += piece.byteLength;
      if (length > ANSWER_BYTES_MAX) break;
    }
  } catch {
    // It broke off, or its time is over.
    isCut = true;
  } finally {
    clearTimeout(timer);
  }
  return { bytes: Buffer.concat(pieces).subarray(0, ANSWER_BYTES_MAX), isCut: isCut || length > ANSWER_BYTES_MAX };
};

/** The problem in the frame of the proxy; undefined for anything else. */
const problemIn = ({ bytes }: Start): ProxyProblem | undefined => {
  try {
    const told = JSON.parse(bytes.toString('utf8')) as unknown;
    const problem = isObject(told) ? told['proxy_error'] : undefined;
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
  const { message, unread } = readAnswer({ headers, body: bytes }, isCut);
  const text = textOf(message) ?? '';
  if (unread !== undefined || bodyKindOf(message.headers).kind === 'bytes' || text.includes('\0')) return 'bytes';
  // Half of a card number does not look like one, so the last digits are left out.
  if (isCut) return { text: shownText(maskedText(text).replace(/[\d -]{1,40}\ufffd?$/, '')).text, isCut };
  const value = valueOf(message);
  return typeof value === 'string' || shapeProblem(value) !== undefined ? shownText(text) : shownValue(value);
};

/** The type without its parameters: a destination writes there what it likes. */
const mediaType = (value: unknown): string => {
  const [, type = ''] = /^\s*([a-z]{1,30}\/[a-z0-9.+-]{1,80})\s*(?:;|$)/i.exec(String(value ?? '')) ?? [];
  return maskedText(type);
};

const ask = async (
  { session, request }: Visit,
  { authentication }: Console,
  { method, url, headers, body }: ReadRequest,
  route: Record<string, string>,
): Promise<Sent> => {
  const named = Object.fromEntries(headers);
  const hasAgent = headers.some(([name]) => name.toLowerCase() === 'user-agent');
  const began = performance.now();
  const answer = await authentication.actAs(session.caller, request, {
    method,
    url,
    headers: { ...(!hasAgent && { 'user-agent': USER_AGENT }), ...named, ...route },
    ...(body !== undefined && { payload: Buffer.from(body, 'utf8') }),
    payloadAsStream: true,
  });
  const ms = performance.now() - began;
  const stream = answer.stream();
  // What breaks off has been told by then, or is not looked at.
  stream.on('error', () => undefined);
  try {
    const told = answer.headers['svc-proxy-destination-status'];
    const destination_status = told === undefined ? undefined : Number(told);
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
    // Closed, and not only left unread: the destination's connection is closed with it.
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
<dt>Destination</dt><dd>${destination_status === undefined ? 'did not answer' : statusBadge(destination_status)}</dd>
${destination_status !== status && html`<dt>Answer of the proxy</dt><dd>${statusBadge(status)}</dd>`}
<dt>Took</dt><dd>${Math.round(ms)} ms</dd>
${destination_status !== undefined && html`<dt>Content type</dt><dd>${type === '' ? 'none' : type}</dd>`}
${destination_status !== undefined && length !== undefined && html`<dt>Length</dt><dd>${Number(length).toLocaleString('en')} bytes</dd>`}
</dl>`;

const MAY_BE_DONE =
  'Where it failed on its way to the destination or back, the request may have been done all the same.';
const CUT = `Cut off: at most ${ANSWER_BYTES_MAX / 1024} KB are shown, and what came within ${ANSWER_MS / 1000} seconds.`;
const MASKED =
  'What looks like the number of a card is masked here, and what JSON calls its security code. JSON is indented, and its long numbers may be rounded. All else is as it was answered, and may repeat the values that were sent.';

const bodyPart = (body: Body): Html => {
  if (body === 'none') return html`<p class="quiet">The answer has no body.</p>`;
  if (body === 'bytes') return html`<p class="quiet">The body of the answer is no text that can be shown.</p>`;
  return html`${shownBlock('Body of the answer', body, CUT)}<p class="quiet">${MASKED}</p>`;
};

/** Sends it. @param route the header that names the proxy or the destination. @returns what came of it, for the page. */
export const sendRequest = async (
  visit: Visit,
  console: Console,
  request: ReadRequest,
  route: Record<string, string>,
): Promise<Html> => {
  const sent = await ask(visit, console, request, route);
  const { destination_status, problem, body } = sent;
  const isFine = destination_status !== undefined && destination_status < 400;
  return html`<section class="card result" id="sent" aria-labelledby="sent-heading"><h2 id="sent-heading" role="${isFine ? 'status' : 'alert'}">${destination_status === undefined ? 'No answer of the destination' : 'Sent'}</h2>
${sentPart(sent)}
${problem && problemBlock(problem, sent.line)}
${destination_status === undefined && !problem && html`<p>Code of the proxy answered in place of the destination.</p>`}
${problem ? html`<p class="quiet">${MAY_BE_DONE}</p>` : bodyPart(body)}
</section>`;
};
