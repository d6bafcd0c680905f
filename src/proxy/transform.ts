// A tenant's code over what passes a stored proxy: a request on its way out, an answer on its way back. What the code gives
// back is an enemy's word until it is looked at; what it leaves as it was goes on byte for byte.
import type { Context } from '../context.ts';
import { EgressFault } from '../egress/fault.ts';
import { type Headers, requestHeaders } from '../egress/headers.ts';
import { AppError, invalidField } from '../errors.ts';
import { shapeProblem } from '../json-shape.ts';
import { answerCalls, type CodeRights } from '../runtime/answer-calls.ts';
import { inputOf } from '../runtime/args.ts';
import { answerOfFault, CodeResponse, runtimeError } from '../runtime/code-errors.ts';
import { RUN_BYTES_MAX } from '../sandbox/sandbox.ts';
import type { Json } from '../vault/json.ts';
import { type JsonFinding, JsonSyntaxError, parseInSlices, runInTurns } from '../vault/json-parser.ts';
import { charsetOf, isJson, type Message, namedHeaders, textOf, valueOf } from './message.ts';
import type { ProxyForUse } from './proxy-finder.ts';

/** What the code learns beside the message. The query is as written; code gets it by its names. */
export type About = { method: string; path: string; query: string; status?: number };

/** What a transform's code may, without what the proxy says itself. */
export type TransformRights = Omit<CodeRights, 'tenant_id' | 'entity'>;

export type Side = 'request' | 'response';

/** A query as code reads it: a name that stands several times has a list. */
const queryValues = (query: string): Record<string, string | string[]> => {
  const named = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(query)) {
    const before = named[name];
    named[name] = before === undefined ? value : [before, value].flat();
  }
  return named;
};

/** What the code returned cannot be sent. */
const misfit = (side: Side, sentence: string): AppError =>
  runtimeError(`The ${side} transform must return an object with \`body\` and \`headers\`: ${sentence}.`, 422);

/** `{ body, headers }`, or the same under `raw`, as reactors return it (interface.md "Reactor response"). */
const returnedOf = (side: Side, value: unknown): { body: Json; headers: Record<string, unknown> } => {
  const isObject = (given: unknown): given is Record<string, unknown> =>
    typeof given === 'object' && given !== null && !Array.isArray(given);
  const outer = isObject(value) ? value : {};
  const { body, headers } = !Object.hasOwn(outer, 'body') && isObject(outer['raw']) ? outer['raw'] : outer;
  if (body === undefined) throw misfit(side, 'there is no body; null is none to send');
  if (!isObject(headers)) throw misfit(side, 'there are no headers');
  return { body: body as Json, headers };
};

const headersOf = (side: Side, given: Record<string, unknown>): Headers => {
  const headers: Headers = [];
  for (const [name, value] of Object.entries(given)) {
    if (value === null) continue;
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof each === 'object') throw misfit(side, 'a header is neither a text nor a list of texts');
      headers.push([name, String(each)]);
    }
  }
  try {
    return requestHeaders(headers);
  } catch (error) {
    throw error instanceof EgressFault ? misfit(side, 'its headers cannot be sent') : error;
  }
};

/** In the charset of its headers. */
const encode = (side: Side, text: string, headers: Headers): Uint8Array => {
  const charset = charsetOf(headers);
  if (charset === 'latin1' && /[^\0-\xff]/.test(text))
    throw misfit(side, 'the body has characters that the charset of its headers does not hold');
  return Buffer.from(text, charset);
};

const bytesOf = (side: Side, value: Json, headers: Headers): Uint8Array | undefined =>
  value === null ? undefined : encode(side, typeof value === 'string' ? value : JSON.stringify(value), headers);

/**
 * What the code would see otherwise than the destination does, or cannot be walked. @throws invalidInput for a request;
 * bad_gateway for an answer.
 */
const refuseUnfit = async (side: Side, message: Message, given: Json): Promise<void> => {
  const problem = shapeProblem(given);
  if (problem !== undefined && side === 'response')
    throw new AppError('bad_gateway', `The body of the destination's answer ${problem}.`);
  if (problem !== undefined) throw invalidField('body', problem);
  if (side === 'response' && mayBeUtf32(message, given))
    throw new AppError('bad_gateway', "The charset of the destination's answer is none that a transform can read.");
  if (side === 'response' || !isJson(message.headers)) return;
  const finding = await misreadOf(textOf(message) ?? '');
  if (finding)
    throw invalidField(
      finding.path === '' || finding.path.startsWith('[') ? `body${finding.path}` : `body.${finding.path}`,
      finding.sentence,
    );
};

/** Of JSON, what the code and the destination would read differently; of other text nothing, which the code has as it is. */
const misreadOf = async (text: string): Promise<JsonFinding | undefined> => {
  try {
    const json = text.startsWith('\ufeff') ? text.slice(1) : text;
    const { duplicate, number } = (await runInTurns(parseInSlices(json))).findings;
    return duplicate ?? number;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return undefined;
    throw error;
  }
};

/** Some receivers know UTF-32 without being told (RFC 4627 section 3). No JSON has a NUL. */
const mayBeUtf32 = ({ headers, body }: Message, given: Json): boolean =>
  body !== undefined && isJson(headers) && body.includes(0) && given === textOf({ headers, body });

/**
 * A body that the code returned as it got it goes on byte for byte. But JSON, of a request and of an answer, is what the
 * code has seen of it and nothing beside, where no name stands twice.
 */
const leftAlone = (side: Side, message: Message, given: Json, headers: Headers): Uint8Array | undefined => {
  const isSeenOtherwise = isJson(message.headers) && given !== (textOf(message) ?? null);
  return isSeenOtherwise ? encode(side, JSON.stringify(given), headers) : message.body;
};

/**
 * Runs one of a proxy's transforms.
 * @param message as it would go on; its body decoded, at most RUN_BYTES_MAX.
 * @returns what goes on in its place; or a response of the code's own making, which goes to the caller.
 * @throws payloadTooLarge; too_many_requests; unavailable; a code_failed for what the code throws, and for what it returns.
 */
export const transform = async (
  ctx: Context,
  proxy: ProxyForUse,
  side: Side,
  message: Message,
  about: About,
  rights: TransformRights,
): Promise<Message | CodeResponse> => {
  const code = side === 'request' ? proxy.request_transform : proxy.response_transform;
  if (code === undefined) return message;
  const { tenant_id, id, version, configuration } = proxy;
  const given = valueOf(message);
  await refuseUnfit(side, message, given);
  const { headers: pairs } = message;
  const args = { ...about, query: queryValues(about.query), body: given, headers: namedHeaders(pairs) };
  if (message.hasValues) rights.opened.add(args as Json);
  const has_svc = (await rights.findApplication()) !== undefined;
  const outcome = await ctx.sandbox.run({
    tenant_id,
    code,
    key: `${id} ${version} ${side}`,
    input: inputOf({ args, configuration, has_svc }),
    answerCall: answerCalls(ctx, { ...rights, tenant_id, entity: { entity_type: 'proxy', entity_id: id } }),
  });
  if (!outcome.ok) {
    const answer = answerOfFault(outcome.fault, { ...ctx.config.sandbox, outputBytesMax: RUN_BYTES_MAX });
    if (answer instanceof CodeResponse) return answer;
    throw answer;
  }
  const returned = returnedOf(side, outcome.value);
  const headers = headersOf(side, returned.headers);
  // In another charset it is another text.
  const isSameCharset = charsetOf(headers) === charsetOf(message.headers);
  if (isSameCharset && JSON.stringify(returned.body) === JSON.stringify(given))
    return { headers, body: leftAlone(side, message, given, headers) };
  const isTyped = headers.some(([name]) => name.toLowerCase() === 'content-type');
  if (!isTyped && returned.body !== null && typeof returned.body !== 'string')
    headers.push(['content-type', 'application/json']);
  return { headers, body: bytesOf(side, returned.body, headers) };
};
