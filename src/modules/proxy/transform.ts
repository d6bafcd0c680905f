// Runs the request or response transform of a stored proxy, and validates what the code returned.
// What the code returns as it was given is sent as it came: the bytes of a body, and the lines of headers.
import type { ReactorsContext } from '../reactors/context.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { type Headers, requestHeaders } from '../../platform/egress/headers.ts';
import { type AppError, invalidField } from '../../platform/base/errors.ts';
import { answerCalls, type CodeRights } from '../code/answer-calls.ts';
import { inputInTurns } from '../code/args.ts';
import { answerOfFault, badInput, CodeResponse, runtimeError, withoutService } from '../code/code-errors.ts';
import { CallFault, RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { joinPaths, type Json } from '../../platform/json/json.ts';
import type { JsonFinding } from '../../platform/json/json-parser.ts';
import { type Slices, stringifyInSlices } from '../../platform/json/slices.ts';
import { unknownCharset } from './bodies/body-kind.ts';
import { escapeJson } from './bodies/charsets.ts';
import { DECLARATION_BYTES_MAX, declaredEncoding } from './bodies/text-charset.ts';
import { badAnswer } from './faults.ts';
import {
  answerProblem,
  bufferOf,
  charsetOf,
  encodeText,
  isJson,
  type Message,
  namedHeaders,
  NOT_IN_CHARSET,
  queryValues,
  type ReadBody,
  readValue,
} from './message.ts';
import { Run } from '../runs/run.ts';
import type { ProxyForUse } from './proxy-finder.ts';

/** What the code receives in addition to the message. The query is as written. */
export type About = { method: string; path: string; query: string; url: string; status?: number };

/** The rights of a transform's code, without the fields that come from the proxy. */
export type TransformRights = Omit<CodeRights, 'tenant_id' | 'entity' | 'run'> & {
  /** Run of the request, which ends as the run of a transform that fails. */
  request: Run;
  /** Aborted when the client disconnects, or the run that sent the request is over: the transform ends. */
  signal: AbortSignal;
  /** Called where code called `fetch` or `svc`, which may have had an effect. */
  noteCalled?: (() => void) | undefined;
  /** When the time of the run that sent the request is over. */
  endsAtMs: number;
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

/** The texts of each header that the code returned. */
const textsOf = (side: Side, returned: Record<string, unknown>): Map<string, string[]> => {
  const texts = new Map<string, string[]>();
  for (const [name, value] of Object.entries(returned)) {
    if (value === null) continue;
    const each = Array.isArray(value) ? (value as unknown[]) : [value];
    if (each.some((text) => typeof text === 'object'))
      throw invalidResult(side, 'a header is neither a text nor a list of texts');
    texts.set(name, each.map(String));
  }
  return texts;
};

const isEqual = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((value, at) => value === other[at]);

/**
 * The lines of the headers that the code returned. Headers of the message keep their spelling and their order; with an unchanged
 * value they keep their lines.
 */
const headersOf = (side: Side, returned: Record<string, unknown>, came: Headers): Headers => {
  const texts = textsOf(side, returned);
  const given = namedHeaders(came);
  const headers: Headers = [];
  const isKept = new Map<string, boolean>();
  for (const line of came) {
    const name = line[0].toLowerCase();
    const values = texts.get(name);
    if (values === undefined) continue;
    const kept = isKept.get(name) ?? isEqual(values, [given[name]].flat());
    if (kept) headers.push(line);
    else if (!isKept.has(name)) for (const value of values) headers.push([line[0], value]);
    isKept.set(name, kept);
  }
  for (const [name, values] of texts) if (!isKept.has(name)) for (const value of values) headers.push([name, value]);
  try {
    return requestHeaders(headers);
  } catch (error) {
    throw error instanceof EgressFault ? invalidResult(side, 'its headers cannot be sent') : error;
  }
};

/** @param isJson whether the text was written from a value: characters that the charset does not hold become escapes. */
function* encode(side: Side, text: string, headers: Headers, isJson: boolean): Slices<Uint8Array> {
  // A byte order mark and the declaration of a document stand at the start.
  const charset = charsetOf({ headers, body: Buffer.from(text.slice(0, DECLARATION_BYTES_MAX)) });
  const body = charset && (yield* encodeText(text, charset));
  if (body) return body;
  if (charset && isJson) return Buffer.from(yield* escapeJson(text));
  throw invalidResult(side, 'the body has characters that the charset of its headers does not hold');
}

/** The headers that say how the body is coded. */
const ofCoding = ['content-type', 'content-encoding'];

/** The message with the body that came, if code left the type as it was and gave the body no coding. */
const unchanged = (side: Side, returned: Record<string, unknown>, headers: Headers, message: Message): Message => {
  const { coded } = message;
  const given = namedHeaders(message.headers);
  const named = namedHeaders(headers);
  if (!coded || ofCoding.some((name) => named[name] !== given[name])) return { headers, body: message.body };
  const came = namedHeaders(coded.headers);
  const kept = Object.entries(returned).filter(([name]) => !ofCoding.includes(name.toLowerCase()));
  const restored = ofCoding.map((name) => [name, came[name] ?? null] as const);
  return { headers: headersOf(side, Object.fromEntries([...kept, ...restored]), coded.headers), body: coded.body };
};

/** Larger bodies are written as JSON in slices: at once they would block the event loop for more than a millisecond. */
const WRITTEN_AT_ONCE = 65_536;

const BODY_OF_ANSWER = "body of the destination's answer";

/** @throws invalidInput for a request; bad_gateway for a response. */
const refuseBody = (side: Side, finding: JsonFinding): never => {
  const { path, sentence, code } = finding;
  if (side === 'response') throw badAnswer(answerProblem(finding, BODY_OF_ANSWER));
  throw invalidField(joinPaths('body', path), sentence, code);
};

/**
 * Refuses a body that the code would read differently than its receiver.
 * @param readsBytes whether the code may read the bytes of a response in place of its value.
 * @throws as refuseBody; unsupported_media_type.
 */
const checkInput = (side: Side, message: Message, read: ReadBody, readsBytes: boolean): void => {
  const finding = read.problem ?? (readsBytes ? undefined : read.loss);
  if (finding) refuseBody(side, finding);
  const isKnown = charsetOf(message) !== undefined;
  if (!isKnown && side === 'request')
    throw unknownCharset(declaredEncoding(bufferOf(message.body)) ?? '').refuse('body');
  if (!isKnown || (side === 'response' && mayBeUtf32(message, read)))
    throw badAnswer("The charset of the destination's answer is none that a transform can read.");
};

/** The bytes in base64, so that code can check a signature over them. Null for no body. */
const encodeRaw = (body: Uint8Array | undefined): string | null =>
  body === undefined ? null : bufferOf(body).toString('base64');

/** Some receivers detect UTF-32 in JSON (RFC 4627 section 3). Valid JSON has no NUL. */
const mayBeUtf32 = ({ headers, body }: Message, read: ReadBody): boolean =>
  body !== undefined && isJson(headers) && !read.isJson && body.includes(0);

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
  const { tenant_id, id, version } = proxy;
  const run = new Run(ctx, rights.actor, { tenant_id, kind: 'transform', resource_id: id, version: String(version) });
  const statusOf = (made: Message | CodeResponse) => (made instanceof CodeResponse ? made.status : undefined);
  return run.through(statusOf, () => runTransform(ctx, { ...proxy, code }, side, message, about, { ...rights, run }));
};

const runTransform = async (
  ctx: ReactorsContext,
  proxy: ProxyForUse & { code: string },
  side: Side,
  message: Message,
  about: About,
  rights: TransformRights & { run: Run },
): Promise<Message | CodeResponse> => {
  const { code } = proxy;
  const { run } = rights;
  const { tenant_id, id, version, configuration } = proxy;
  const { account = tenant_id } = rights;
  const read = await ctx.accounts.runInTurns(account, readValue(message));
  const readsBytes = code.includes('raw_body');
  // What it opens from values in the bytes could not be known again: such a response has no way around the check.
  checkInput(side, message, read, readsBytes && side === 'response' && !message.hasValues);
  const { value, loss, isInCharset } = read;
  const { headers: pairs, raw = message } = message;
  const args = {
    ...about,
    query: queryValues(about.query),
    ...(!loss && { body: value }),
    headers: namedHeaders(pairs),
    raw_headers: raw.headers,
    // Counts against the size of the args: only for code that names it.
    ...(readsBytes && { raw_body: encodeRaw(raw.body) }),
  };
  if (message.hasValues) await ctx.accounts.runInTurns(account, rights.opened.add(args as Json));
  // Code that reads the value gets an error if it would not be what the bytes say.
  const lost_body = loss && `${answerProblem(loss, BODY_OF_ANSWER)} Read args.raw_body in place of args.body.`;
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
    endsAtMs: rights.endsAtMs,
    code,
    key: `${id} ${version} ${side}`,
    input: await inputInTurns(ctx, account, { args, configuration, has_svc, lost_body }, isLarge),
    answerCall: async (call) => {
      try {
        return await answerCall(call);
      } catch (error) {
        if (error instanceof CallFault && error.status === 400) refusals.add(error.message);
        throw error;
      }
    },
  });
  run.ran(outcome);
  if (outcome.hasCalled) rights.noteCalled?.();
  if (!outcome.ok) {
    const { fault } = outcome;
    // The sender's data is at fault, such as a card with a wrong check digit: with a 500 it would send the same again.
    const isOfSender = side === 'request' && fault.code === 'THROWN' && refusals.has(fault.message);
    const answer = isOfSender
      ? badInput(fault.message, fault.line)
      : answerOfFault(has_svc ? fault : withoutService(fault, 'proxy'), {
          ...ctx.config.sandbox,
          outputBytesMax: RUN_BYTES_MAX,
        });
    run.codeFailed(fault, answer.status);
    if (isOfSender) run.refused();
    rights.request.follow(run);
    if (answer instanceof CodeResponse) return answer;
    throw answer;
  }
  const returned = returnedOf(side, outcome.value);
  const headers = headersOf(side, returned.headers, pairs);
  // The same text in another charset is a change.
  const isSameCharset = charsetOf({ headers, body: message.body }) === charsetOf(message);
  const writeJson = (body: Json): string | Promise<string> =>
    isLarge || outcome.bytes > WRITTEN_AT_ONCE
      ? ctx.accounts.finishInTurns(account, stringifyInSlices(body))
      : JSON.stringify(body);
  const isText = typeof returned.body === 'string';
  const written = typeof returned.body === 'string' ? returned.body : await writeJson(returned.body);
  const isSame = isText || typeof value === 'string' ? returned.body === value : written === (await writeJson(value));
  if (isSameCharset && isSame && !loss) return unchanged(side, returned.headers, headers, message);
  // The bytes of which the code saw U+FFFD are lost.
  if (!loss && !isInCharset && written.includes('\ufffd'))
    refuseBody(side, { path: '', sentence: NOT_IN_CHARSET, code: 'invalid' });
  const isTyped = headers.some(([name]) => name.toLowerCase() === 'content-type');
  if (!isTyped && returned.body !== null && !isText) headers.push(['content-type', 'application/json']);
  if (returned.body === null) return { headers, body: undefined };
  return { headers, body: await ctx.accounts.finishInTurns(account, encode(side, written, headers, !isText)) };
};
