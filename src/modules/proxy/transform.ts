// Runs the request or response transform of a stored proxy, and validates what the code returned.
// A body that the code returns unchanged is forwarded byte for byte.
import type { Account } from '../../platform/accounts.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import { EgressFault } from '../../platform/egress/fault.ts';
import { type Headers, requestHeaders } from '../../platform/egress/headers.ts';
import { AppError, invalidField } from '../../platform/errors.ts';
import { answerCalls, type CodeRights } from '../code/answer-calls.ts';
import { inputInTurns } from '../code/args.ts';
import { answerOfFault, badInput, CodeResponse, runtimeError, withoutService } from '../code/code-errors.ts';
import { CallFault, RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import type { Json } from '../../platform/json/json.ts';
import { type JsonFinding, JsonSyntaxError, parseInSlices } from '../../platform/json/json-parser.ts';
import type { OutsideJson } from '../../platform/json/json-shape.ts';
import { stringifyInSlices } from '../../platform/json/slices.ts';
import {
  charsetOf,
  encodeText,
  isJson,
  type Message,
  namedHeaders,
  queryValues,
  readValue,
  textOf,
} from './message.ts';
import { withoutByteOrderMark } from './bodies/utf16.ts';
import type { ProxyForUse } from './proxy-finder.ts';

/** What the code receives in addition to the message. The query is as written. */
export type About = { method: string; path: string; query: string; url: string; status?: number };

/** The rights of a transform's code, without the fields that come from the proxy. */
export type TransformRights = Omit<CodeRights, 'tenant_id' | 'entity'> & {
  /** Aborted when the client disconnects, or the run that sent the request is over: the transform ends. */
  signal: AbortSignal;
};

export type Side = 'request' | 'response';

/** An error for a returned value that cannot be sent. */
const invalidResult = (side: Side, sentence: string): AppError =>
  runtimeError(`The ${side} transform must return an object with \`body\` and \`headers\`: ${sentence}.`, 422);

/** Accepts `{ body, headers }`, or the same under `raw`, as reactors return it. */
const returnedOf = (side: Side, value: unknown): { body: Json; headers: Record<string, unknown> } => {
  const isObject = (candidate: unknown): candidate is Record<string, unknown> =>
    typeof candidate === 'object' && candidate !== null && !Array.isArray(candidate);
  const outer = isObject(value) ? value : {};
  const { body, headers } = !Object.hasOwn(outer, 'body') && isObject(outer['raw']) ? outer['raw'] : outer;
  if (body === undefined) throw invalidResult(side, 'there is no body; return null to send none');
  if (!isObject(headers)) throw invalidResult(side, 'there are no headers');
  return { body: body as Json, headers };
};

const headersOf = (side: Side, returned: Record<string, unknown>): Headers => {
  const headers: Headers = [];
  for (const [name, value] of Object.entries(returned)) {
    if (value === null) continue;
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof each === 'object') throw invalidResult(side, 'a header is neither a text nor a list of texts');
      headers.push([name, String(each)]);
    }
  }
  try {
    return requestHeaders(headers);
  } catch (error) {
    throw error instanceof EgressFault ? invalidResult(side, 'its headers cannot be sent') : error;
  }
};

const encode = (side: Side, text: string, headers: Headers): Uint8Array => {
  const body = encodeText(text, charsetOf(headers));
  if (body) return body;
  throw invalidResult(side, 'the body has characters that the charset of its headers does not hold');
};

/** Larger bodies are written as JSON in slices: at once they would block the event loop for more than a millisecond. */
const WRITTEN_AT_ONCE = 65_536;

/**
 * Refuses a body that the code would read differently than the destination, or that is nested too deep.
 * @throws invalidInput for a request; bad_gateway for a response.
 */
const checkInput = async (
  ctx: ReactorsContext,
  account: Account,
  side: Side,
  message: Message,
  { value, problem }: OutsideJson,
): Promise<void> => {
  if (problem !== undefined && side === 'response')
    throw new AppError('bad_gateway', `The body of the destination's answer ${problem}.`);
  if (problem !== undefined) throw invalidField('body', problem);
  if (side === 'response' && mayBeUtf32(message, value))
    throw new AppError('bad_gateway', "The charset of the destination's answer is none that a transform can read.");
  if (side === 'response' || !isJson(message.headers)) return;
  const finding = await ambiguityOf(ctx, account, textOf(message) ?? '');
  if (finding)
    throw invalidField(
      finding.path === '' || finding.path.startsWith('[') ? `body${finding.path}` : `body.${finding.path}`,
      finding.sentence,
    );
};

/** Finds duplicate names and inexact numbers in JSON, which the code and the destination may read differently. */
const ambiguityOf = async (ctx: ReactorsContext, account: Account, text: string): Promise<JsonFinding | undefined> => {
  try {
    const slices = parseInSlices(withoutByteOrderMark(text));
    const { duplicate, number } = (await ctx.accounts.runInTurns(account, slices)).findings;
    return duplicate ?? number;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return undefined;
    throw error;
  }
};

/** The bytes in base64, so that code can check a signature over them. Null for no body. */
const encodeRaw = (body: Uint8Array | undefined): string | null =>
  body === undefined ? null : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('base64');

/** Some receivers detect UTF-32 in JSON (RFC 4627 section 3). Valid JSON has no NUL. */
const mayBeUtf32 = ({ headers, body }: Message, value: Json): boolean =>
  body !== undefined && isJson(headers) && body.includes(0) && value === textOf({ headers, body });

/**
 * Runs one of a proxy's transforms.
 * @param message the message as it would be sent; its body decoded, at most RUN_BYTES_MAX.
 * @returns the message to send; or a response of the code for the caller.
 * @throws payloadTooLarge; too_many_requests; unavailable; code_failed for what the code throws, and for an invalid result.
 */
export const transform = async (
  ctx: ReactorsContext,
  proxy: ProxyForUse,
  side: Side,
  message: Message,
  about: About,
  rights: TransformRights,
): Promise<Message | CodeResponse> => {
  const code = side === 'request' ? proxy.request_transform : proxy.response_transform;
  if (code === undefined) return message;
  const { tenant_id, id, version, configuration } = proxy;
  const { account = tenant_id } = rights;
  const read = await ctx.accounts.runInTurns(account, readValue(message));
  await checkInput(ctx, account, side, message, read);
  const { value } = read;
  const { headers: pairs } = message;
  const args = {
    ...about,
    query: queryValues(about.query),
    body: value,
    headers: namedHeaders(pairs),
    raw_headers: pairs,
    // Counts against the size of the args: only for code that names it.
    ...(code.includes('raw_body') && { raw_body: encodeRaw(message.body) }),
  };
  if (message.hasValues) await ctx.accounts.runInTurns(account, rights.opened.add(args as Json));
  const has_svc = (await rights.findApplication()) !== undefined;
  const isLarge = (message.body?.byteLength ?? 0) > WRITTEN_AT_ONCE;
  const answerCall = answerCalls(ctx, { ...rights, tenant_id, entity: { entity_type: 'proxy', entity_id: id } });
  /** What the vault said of invalid data that the code gave to `svc`. */
  const refusals = new Set<string>();
  const outcome = await ctx.sandbox.run({
    tenant_id,
    account,
    application_id: proxy.application_id,
    signal: rights.signal,
    code,
    key: `${id} ${version} ${side}`,
    input: await inputInTurns(ctx, account, { args, configuration, has_svc }, isLarge),
    answerCall: async (call) => {
      try {
        return await answerCall(call);
      } catch (error) {
        if (error instanceof CallFault && error.status === 400) refusals.add(error.message);
        throw error;
      }
    },
  });
  if (!outcome.ok) {
    const { fault } = outcome;
    // The sender's data is at fault, such as a card with a wrong check digit: with a 500 it would send the same again.
    if (side === 'request' && fault.code === 'THROWN' && refusals.has(fault.message))
      throw badInput(fault.message, fault.line);
    const answer = answerOfFault(has_svc ? fault : withoutService(fault, 'proxy'), {
      ...ctx.config.sandbox,
      outputBytesMax: RUN_BYTES_MAX,
    });
    if (answer instanceof CodeResponse) return answer;
    throw answer;
  }
  const returned = returnedOf(side, outcome.value);
  const headers = headersOf(side, returned.headers);
  // The same text in another charset is a change.
  const isSameCharset = charsetOf(headers) === charsetOf(message.headers);
  const writeJson = (body: Json): string | Promise<string> =>
    isLarge || outcome.bytes > WRITTEN_AT_ONCE
      ? ctx.accounts.finishInTurns(account, stringifyInSlices(body))
      : JSON.stringify(body);
  const isText = typeof returned.body === 'string';
  const written = typeof returned.body === 'string' ? returned.body : await writeJson(returned.body);
  const isSame = isText || typeof value === 'string' ? returned.body === value : written === (await writeJson(value));
  if (isSameCharset && isSame) {
    // JSON is written again if the code read it as a value: duplicate names must not pass what the code has not seen.
    const isParsed = isJson(message.headers) && value !== (textOf(message) ?? null);
    const json = isText ? await writeJson(value) : written;
    return { headers, body: isParsed ? encode(side, json, headers) : message.body };
  }
  const isTyped = headers.some(([name]) => name.toLowerCase() === 'content-type');
  if (!isTyped && returned.body !== null && !isText) headers.push(['content-type', 'application/json']);
  return { headers, body: returned.body === null ? undefined : encode(side, written, headers) };
};
