// `svc.proxy` of running code: its call as a request to the proxy, and the answer as JSON can hold it. Forwards nothing.
import { z } from 'zod';
import type { Context } from '../context.ts';
import { isDecodable } from '../egress/body.ts';
import { takeWhole } from '../egress/fetch.ts';
import type { Headers } from '../egress/headers.ts';
import { fieldErrors, invalidInput } from '../errors.ts';
import { shapeProblem } from '../json-shape.ts';
import { type Call, CallFault, RUN_BYTES_MAX } from '../sandbox/sandbox.ts';
import { CODED_MARK, type CodedText, createCodedTexts } from '../vault/coded-texts.ts';
import { formatPath } from '../vault/json.ts';
import { readAnswer } from './answer-text.ts';
import { forwardingFault } from './faults.ts';
import type { ProxyAnswer, ProxyRequest } from './forward.ts';
import { namedHeaders, valueOf } from './message.ts';

const HEADERS_MAX = 100;
const TEXT_LENGTH_MAX = 16_384;

const scalar = z.union([z.string().max(TEXT_LENGTH_MAX), z.number(), z.boolean()], 'must be a text or a number');

const proxyCall = z.object(
  {
    method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], 'must be GET, POST, PUT, PATCH or DELETE'),
    headers: z
      .record(z.string(), scalar, 'must be an object of texts')
      .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, `must be at most ${HEADERS_MAX}`)
      .nullish(),
    path: z.string('must be a path').max(TEXT_LENGTH_MAX, `must have at most ${TEXT_LENGTH_MAX} characters`).nullish(),
    query: z.record(z.string(), z.union([scalar, z.array(scalar)]), 'must be an object of texts').nullish(),
    /** Anything. */
    body: z.unknown().optional(),
    /** Made by the sandbox, of what `svc.expression` and `svc.literal` made and the request has. */
    marks: z
      .record(
        z.string().regex(new RegExp(`^${CODED_MARK.source}$`)),
        z.union([z.object({ literal: z.string() }), z.object({ id: z.string(), filter: z.string().nullish() })]),
      )
      .nullish(),
  },
  'must be an object',
);

/** A body that is one `svc.literal` is that text, under any type; its mark is taken out. */
const bodyOf = (given: unknown, marked: Map<string, CodedText>): { body: unknown; isLiteral: boolean } => {
  const name = typeof given === 'string' ? given.slice(2, -2) : '';
  const coded = given === `{{${name}}}` ? marked.get(name) : undefined;
  if (coded === undefined || !('literal' in coded)) return { body: given, isLiteral: false };
  marked.delete(name);
  return { body: coded.literal, isLiteral: true };
};

/** @throws invalidInput. */
export const parseProxyCall = (input: unknown): Omit<ProxyRequest, 'caller' | 'origin' | 'signal'> => {
  const parsed = proxyCall.safeParse(input);
  if (!parsed.success)
    throw invalidInput(
      fieldErrors(
        parsed.error.issues.map(({ path, message }) => [formatPath(path as (string | number)[]), message] as const),
      ),
    );
  const { method, headers, path, query } = parsed.data;
  const marked = new Map<string, CodedText>(Object.entries(parsed.data.marks ?? {}));
  const { body, isLiteral } = bodyOf(parsed.data.body, marked);
  const asked = new URLSearchParams();
  for (const [name, values] of Object.entries(query ?? {}))
    for (const value of [values].flat()) asked.append(name, String(value));
  const pairs = Object.entries(headers ?? {}).map(([name, value]): [string, string] => [name, String(value)]);
  const hasBody = body !== undefined && body !== null;
  const isTyped = pairs.some(([name]) => name.toLowerCase() === 'content-type');
  if (hasBody && !isTyped && typeof body !== 'string') pairs.push(['content-type', 'application/json']);
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? null));
  const slash = path && !path.startsWith('/') ? '/' : '';
  return {
    method,
    url: `/proxy${slash}${path ?? ''}${asked.size > 0 ? `?${asked.toString()}` : ''}`,
    headers: pairs,
    body: hasBody ? onePiece(bytes) : undefined,
    bodyBytes: hasBody ? bytes.byteLength : undefined,
    coded: { texts: createCodedTexts(marked), hasLiteralBody: isLiteral },
  };
};

async function* onePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** What code gets of an answer, as a transform does: whatever the destination says is one. @throws CallFault. */
export const callAnswer = async (
  ctx: Pick<Context, 'egress'>,
  tenant_id: string,
  { status, headers, body, bodyBytes, statusText }: ProxyAnswer,
  { signal, sent }: Pick<Call, 'signal' | 'sent'>,
): Promise<{ status: number; headers: Record<string, string | string[]>; body: unknown }> => {
  const answered = (came: Headers, bytes: Uint8Array | undefined) => {
    const { message } = readAnswer({ headers: came, body: bytes });
    const value = valueOf(message);
    const problem = shapeProblem(value);
    if (problem !== undefined) throw new CallFault('DECODE', `The body of the answer ${problem}.`);
    return { status, headers: namedHeaders(message.headers), body: value };
  };
  if (body === undefined || body instanceof Uint8Array) return answered(headers, body);
  const answer = { status, statusText, headers, bodyBytes, body };
  const whole = await takeWhole(ctx.egress, { tenant_id, signal, bodyBytesMax: RUN_BYTES_MAX }, answer).catch(
    (error: unknown) => {
      throw forwardingFault(error);
    },
  );
  // Its bytes are here until they have left for the executor.
  void sent.then(() => whole.release());
  const isDecoded = isDecodable(headers);
  return answered(
    headers.filter(([name]) => !isDecoded || name.toLowerCase() !== 'content-encoding'),
    whole.body,
  );
};
