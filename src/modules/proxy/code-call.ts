// Runs the response transform of a stored proxy. Converts a call of `svc.proxy` to a request, and its response to JSON.
import { z } from 'zod';
import type { ProxyContext } from './context.ts';
import type { EgressResponse } from '../../platform/egress/client.ts';
import { decodableOf, decodeBody, isDecodable } from '../../platform/egress/body.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { takeWhole } from '../../platform/egress/fetch.ts';
import type { Headers } from '../../platform/egress/headers.ts';
import { mayCodeSend } from '../../platform/http/proxy-answer-headers.ts';
import { type AppError, invalidInput } from '../../platform/base/errors.ts';
import { CodeResponse } from '../code/code-errors.ts';
import { type Call, CallFault, RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { readAnswer, type Reservations } from './bodies/take-body.ts';
import { answerProblem, namedHeaders, readValue, staleDigests } from './message.ts';
import { badAnswer, forwardingFault } from './faults.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import type { AnswerWithin, ProxyAnswer, ProxyRequest } from './request.ts';
import { type About, transform, type TransformRights } from './transform.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import { CODED_MARK, type CodedText, createCodedTexts } from '../tokens/expressions/expansion.ts';
import { EXPRESSION_PLACEHOLDERS_MAX } from '../tokens/expressions/template.ts';
import { boundedRecord } from '../../platform/json/json-shape.ts';
import { toFieldError } from '../../platform/http/sentences.ts';
import { QUERY_PARAMETERS_MAX, refuseLongTarget, TOO_MANY_PARAMETERS } from './target.ts';

export const answerOfCode = (
  { status, headers, body }: CodeResponse,
  destination_status: number | undefined,
): AnswerWithin => ({
  status,
  statusText: '',
  headers: Object.entries(headers),
  body: body === undefined ? undefined : Buffer.from(body),
  bodyBytes: undefined,
  destination_status,
});

/** Code reads decoded responses: of the codings that the client accepts, those are requested that the server decodes. */
export const requestingDecodable = (headers: Headers): Headers =>
  headers.map(([name, value]) => [name, name.toLowerCase() === 'accept-encoding' ? decodableOf(value) : value]);

/** Repeats only a well-formed label of the Encoding Standard, because the destination chooses the text. */
const undecodable = (charset: string): AppError =>
  badAnswer(
    `The body of the destination's answer cannot be decoded from ${/^[\w.:()+-]{1,40}$/.test(charset) ? `"${charset}"` : 'the charset that it declares'}.`,
  );

/** @returns the response of the destination where the code left its body, otherwise one without a content coding. */
export const transformAnswer = async (
  ctx: ProxyContext,
  proxy: ProxyForUse,
  answer: EgressResponse,
  about: About,
  { hasValues, ...rights }: TransformRights & { hasValues: boolean },
  reservations: Reservations,
): Promise<AnswerWithin> => {
  const { account = proxy.tenant_id, signal } = rights;
  const { status, statusText } = answer;
  if (!isDecodable(answer.headers)) {
    answer.body.destroy();
    throw new EgressFault('DECODE');
  }
  const wanted = { account, signal, bodyBytesMax: RUN_BYTES_MAX, keepsCoded: true };
  const { body, coded, release } = await takeWhole(ctx, wanted, answer);
  reservations.push({ release });
  const headers = answer.headers.filter(([name]) => name.toLowerCase() !== 'content-encoding');
  const original = { headers: answer.headers, body: coded };
  const { message: came, unread } = await ctx.accounts.runInTurns(
    account,
    readAnswer({ headers, body, hasValues, coded: original }),
  );
  if (unread !== undefined) throw undecodable(unread);
  const made = await transform(ctx, proxy, 'response', came, { ...about, status }, rights);
  if (made instanceof CodeResponse) return answerOfCode(made, status);
  // Headers of the destination pass, as without a transform. Browsers get no cookie: the route drops it.
  const sent = new Set(['set-cookie', ...answer.headers.map(([name]) => name.toLowerCase())]);
  const allowed = made.headers.filter(([name]) => mayCodeSend(name) || sent.has(name.toLowerCase()));
  const stale = new Set(made.body === coded ? [] : staleDigests(answer.headers, allowed));
  return {
    status,
    statusText,
    headers: allowed.filter((line) => !stale.has(line)),
    body: made.body,
    bodyBytes: undefined,
    destination_status: status,
  };
};

const HEADERS_MAX = 100;
const TEXT_LENGTH_MAX = 16_384;

type Scalar = string | number | boolean;

const scalar = z.union([z.string().max(TEXT_LENGTH_MAX), z.number(), z.boolean()], 'must be a text or a number');

const countParameters = (query: object): number =>
  Object.values(query).reduce((sum: number, values: unknown) => sum + (Array.isArray(values) ? values.length : 1), 0);

const proxyCall = z.object(
  {
    method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], 'must be GET, POST, PUT, PATCH or DELETE'),
    headers: boundedRecord(z.string(), scalar, HEADERS_MAX, {
      error: 'must be an object of texts',
      tooMany: `must be at most ${HEADERS_MAX}`,
    }).nullish(),
    path: z.string('must be a path').max(TEXT_LENGTH_MAX, `must have at most ${TEXT_LENGTH_MAX} characters`).nullish(),
    query: boundedRecord(
      z.string(),
      z.union([scalar, z.array(scalar)], 'must be a text or a number, or a list of them'),
      QUERY_PARAMETERS_MAX,
      { error: 'must be an object of texts', tooMany: TOO_MANY_PARAMETERS, count: countParameters },
    ).nullish(),
    body: z.unknown().optional(),
    /** Added by the sandbox: what `svc.expression` and `svc.literal` returned, if the request contains it. */
    marks: boundedRecord(
      z.string().regex(new RegExp(`^${CODED_MARK.source}$`)),
      z.union([z.object({ literal: z.string() }), z.object({ id: z.string(), filter: z.string().nullish() })]),
      EXPRESSION_PLACEHOLDERS_MAX,
      { tooMany: `must have at most ${EXPRESSION_PLACEHOLDERS_MAX} expressions` },
    ).nullish(),
  },
  'must be an object',
);

/** If the body is exactly one `svc.literal`, takes its text and removes its mark: no other type applies to it. */
const bodyOf = (value: unknown, marked: Map<string, CodedText>): { body: unknown; isLiteral: boolean } => {
  const name = typeof value === 'string' ? value.slice(2, -2) : '';
  const coded = value === `{{${name}}}` ? marked.get(name) : undefined;
  if (coded === undefined || !('literal' in coded)) return { body: value, isLiteral: false };
  marked.delete(name);
  return { body: coded.literal, isLiteral: true };
};

/** @throws invalidInput for more than a URL may have, before more of it is encoded. */
const searchOf = (query: Record<string, Scalar | Scalar[]>): URLSearchParams => {
  const search = new URLSearchParams();
  let characters = 0;
  for (const [name, values] of Object.entries(query))
    for (const value of [values].flat()) {
      const text = String(value);
      characters += name.length + text.length;
      refuseLongTarget(characters);
      search.append(name, text);
    }
  return search;
};

export const parseProxyCall = (input: unknown): Omit<ProxyRequest, 'work' | 'origin' | 'signal'> => {
  const parsed = proxyCall.safeParse(input);
  if (!parsed.success) throw invalidInput(parsed.error.issues.map((issue) => toFieldError(issue, input)));
  const { method, headers, path, query } = parsed.data;
  const marked = new Map<string, CodedText>(Object.entries(parsed.data.marks ?? {}));
  const { body, isLiteral } = bodyOf(parsed.data.body, marked);
  const search = searchOf(query ?? {});
  const pairs = Object.entries(headers ?? {}).map(([name, value]): [string, string] => [name, String(value)]);
  const hasBody = body !== undefined && body !== null;
  const isTyped = pairs.some(([name]) => name.toLowerCase() === 'content-type');
  if (hasBody && !isTyped && typeof body !== 'string') pairs.push(['content-type', 'application/json']);
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? null));
  const slash = path && !path.startsWith('/') ? '/' : '';
  return {
    method,
    url: `/proxy${slash}${path ?? ''}${search.size > 0 ? `?${search.toString()}` : ''}`,
    headers: pairs,
    body: hasBody ? oneChunk(bytes) : undefined,
    bodyBytes: hasBody ? bytes.byteLength : undefined,
    coded: { texts: createCodedTexts(marked), hasLiteralBody: isLiteral },
  };
};

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** The response as code receives it, whatever its status. @throws CallFault. */
export const callAnswer = async (
  ctx: Pick<ReactorsContext, 'accounts'>,
  { account, status, headers, body, bodyBytes, statusText }: Omit<ProxyAnswer, 'run'>,
  { signal, sent }: Pick<Call, 'signal' | 'sent'>,
): Promise<{ status: number; headers: Record<string, string | string[]>; body: unknown }> => {
  const convert = async (received: Headers, bytes: Uint8Array | undefined) => {
    const { message } = await ctx.accounts.runInTurns(account, readAnswer({ headers: received, body: bytes }));
    const { value, problem, loss } = await ctx.accounts.runInTurns(account, readValue(message));
    const finding = problem ?? loss;
    if (finding) throw new CallFault('DECODE', answerProblem(finding, 'body of the answer'));
    return { status, headers: namedHeaders(message.headers), body: value };
  };
  const isDecoded = isDecodable(headers);
  const decodedHeaders = headers.filter(([name]) => !isDecoded || name.toLowerCase() !== 'content-encoding');
  if (body === undefined) return convert(headers, body);
  // A transform left it as it came.
  const failed = (error: unknown): never => {
    throw forwardingFault(error);
  };
  if (body instanceof Uint8Array)
    return convert(decodedHeaders, await decodeBody(headers, Buffer.from(body), RUN_BYTES_MAX).catch(failed));
  const answer = { status, statusText, headers, bodyBytes, body };
  const whole = await takeWhole(ctx, { account, signal, bodyBytesMax: RUN_BYTES_MAX }, answer).catch(failed);
  // The body stays in memory until it was sent to the executor.
  void sent.then(() => whole.release());
  return convert(decodedHeaders, whole.body);
};
