// Sends a typed request through the proxy, as the member, with raw values in it. Shows how the destination answered, and nothing
// of what: a body may repeat the values, so it is neither read nor held, and the connection is let go of at once.
import { STATUS_CODES } from 'node:http';
import { html, type Html } from '../../http/html.ts';
import { maskedText } from '../../runtime/shown.ts';
import type { ReadRequest } from './proxy-request.ts';
import { badge } from './shell.ts';
import type { Console, Visit } from './visit.ts';

/** Far above a problem of ours; what code answers in place of one may be larger, and is not shown. */
const PROBLEM_BYTES_MAX = 65_536;

type ProxyProblem = { title?: unknown; detail?: unknown; errors?: unknown };

type Sent = {
  status: number;
  /** Undefined where the destination did not answer. */
  destination_status: number | undefined;
  type: string;
  length: string | undefined;
  problem: ProxyProblem | undefined;
  /** Where a transform threw it. */
  line: string | undefined;
  ms: number;
};

/** Who asks, where no header of the request says it. */
const USER_AGENT = 'strongroom-console';

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** The problem in the frame of the proxy; undefined for anything else. */
const problemIn = async (body: AsyncIterable<Buffer>): Promise<ProxyProblem | undefined> => {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.byteLength;
    if (bytes > PROBLEM_BYTES_MAX) return undefined;
    pieces.push(piece);
  }
  try {
    const told = JSON.parse(Buffer.concat(pieces).toString('utf8')) as unknown;
    const problem = isObject(told) ? told['proxy_error'] : undefined;
    return isObject(problem) ? problem : undefined;
  } catch {
    return undefined;
  }
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
    return {
      status: answer.statusCode,
      destination_status,
      type: mediaType(answer.headers['content-type']),
      length: /^\d{1,15}$/.exec(String(answer.headers['content-length'] ?? ''))?.[0],
      line: /^\d{1,6}$/.exec(String(answer.headers['svc-code-line'] ?? ''))?.[0],
      problem: destination_status === undefined ? await problemIn(stream) : undefined,
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
const NOT_SHOWN = 'The body of the answer is neither shown nor read: it may repeat the values that were sent.';

/** Sends it. @param route the header that names the proxy or the destination. @returns what came of it, for the page. */
export const sendRequest = async (
  visit: Visit,
  console: Console,
  request: ReadRequest,
  route: Record<string, string>,
): Promise<Html> => {
  const sent = await ask(visit, console, request, route);
  const { destination_status, problem } = sent;
  const isFine = destination_status !== undefined && destination_status < 400;
  return html`<section class="card result" id="sent" aria-labelledby="sent-heading"><h2 id="sent-heading" role="${isFine ? 'status' : 'alert'}">${destination_status === undefined ? 'No answer of the destination' : 'Sent'}</h2>
${sentPart(sent)}
${problem && problemBlock(problem, sent.line)}
${destination_status === undefined && !problem && html`<p>Code of the proxy answered in place of the destination.</p>`}
<p class="quiet">${problem ? MAY_BE_DONE : NOT_SHOWN}</p>
</section>`;
};
