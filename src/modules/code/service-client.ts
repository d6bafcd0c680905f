// Answers calls of `svc` by running code, with the functions behind the API and the permissions of an application.
import type { Work } from '../access/work.ts';
import { allOrNothing } from '../access/decisions.ts';
import { z } from 'zod';
import type { CodeContext } from './context.ts';
import {
  AppError,
  type FieldErrors,
  internal,
  invalidField,
  invalidInput,
  notFound,
  payloadTooLarge,
} from '../../platform/base/errors.ts';
import { toFieldError } from '../../platform/http/sentences.ts';
import { pageFields, pageOf } from '../../platform/base/pagination.ts';
import { CallFault } from '../../platform/sandbox/protocol/sandbox.ts';
import { UNKNOWN_NAMES_MAX, unknownName } from '../../platform/base/unknown-names.ts';
import { changeToken, deleteToken } from '../tokens/change-token.ts';
import { createToken } from '../tokens/create-tokens.ts';
import { detokenize } from '../tokens/detokenize.ts';
import { formatPath, type Json } from '../../platform/json/json.ts';
import { jsonSize } from '../tokens/expressions/meter.ts';
import type { OpenedTexts } from '../tokens/expressions/opened-texts.ts';
import { getToken, searchTokens } from '../tokens/read-tokens.ts';
import { searchQueryText } from '../tokens/search-query.ts';
import { TOKEN_ID_LENGTH_MAX } from '../access/token-id.ts';
import { tokenize } from '../tokens/tokenize.ts';

/** Length of the error message of a call. */
const MESSAGE_LENGTH_MAX = 4096;

/**
 * Holds a body from code to the size limit of request bodies: code stores nothing that a client could not send.
 * @throws payloadTooLarge.
 */
export const checkWeight = (ctx: Pick<CodeContext, 'config'>, body: Json, what: string): void => {
  const { bodyBytesMax } = ctx.config;
  if (jsonSize(body, bodyBytesMax).bytes > bodyBytesMax)
    throw payloadTooLarge(`${what} must be at most ${bodyBytesMax} bytes.`);
};

const parse = <T extends z.ZodObject>(schema: T, input: unknown): z.output<T> => {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const names = Object.keys(schema.shape);
  throw invalidInput(
    parsed.error.issues.flatMap((issue): FieldErrors =>
      issue.code === 'unrecognized_keys'
        ? issue.keys
            .slice(0, UNKNOWN_NAMES_MAX)
            .map((name) => ({ path: formatPath([name]), sentence: unknownName(name, names), code: 'unknown_name' }))
        : [toFieldError(issue, input)],
    ),
  );
};

/** A property of the input of the call, which the supervisor parsed as JSON. */
const partOf = (ctx: CodeContext, input: unknown, name: string): Json | undefined => {
  const given = typeof input === 'object' && input !== null && Object.hasOwn(input, name);
  const part = given ? (input as Record<string, Json>)[name] : undefined;
  if (part !== undefined) checkWeight(ctx, part, 'What is sent');
  return part;
};

const bodyOf = (ctx: CodeContext, input: unknown): Json => {
  const body = partOf(ctx, input, 'body');
  if (body === undefined) throw invalidField('', 'a value is needed', 'required');
  return body;
};

const given = z.object({ id: z.string('must be the id of a token') }, 'must have the id of a token');

/** @throws notFound for text longer than any id, as the routes do. */
const idOf = (input: unknown): string => {
  const { id } = parse(given, input);
  if (id.length > TOKEN_ID_LENGTH_MAX) throw notFound('token');
  return id;
};

const search = z.strictObject({ query: searchQueryText, ...pageFields }, 'must be an object with a query');

type Method = (ctx: CodeContext, work: Work, input: unknown) => Promise<unknown>;

/** The only functions that code can call. None of them gets an API key. */
const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['svc:tokenize', async (ctx, work, input) => tokenize(ctx, work, bodyOf(ctx, input))],
  ['svc:detokenize', async (ctx, work, input) => detokenize(ctx, work, bodyOf(ctx, input))],
  ['svc:tokens.create', async (ctx, work, input) => createToken(ctx, work, { request: partOf(ctx, input, 'token') })],
  ['svc:tokens.retrieve', async (ctx, work, input) => getToken(ctx, work, idOf(input))],
  ['svc:tokens.update', async (ctx, work, input) => changeToken(ctx, work, idOf(input), partOf(ctx, input, 'patch'))],
  [
    'svc:tokens.delete',
    async (ctx, work, input) => {
      await deleteToken(ctx, work, idOf(input));
      return null;
    },
  ],
  [
    'svc:tokens.search',
    async (ctx, work, input) => {
      const { query, ...page } = parse(search, input);
      return searchTokens(ctx, work, { query, page: pageOf(page) });
    },
  ],
]);

/** Failures of a destination or of a tenant's code are not logged as errors of the server. */
const isOurs = ({ code }: AppError): boolean => code === 'internal' || code === 'unavailable';

/** An error as code may see it: the public sentence of the API, with the paths of a problem after it. */
export const callFaultOf = (ctx: Pick<CodeContext, 'log'>, error: unknown): CallFault => {
  const known = error instanceof AppError ? error : internal(error);
  if (isOurs(known)) ctx.log.error({ error: known, code: known.code }, 'a call of code failed');
  // Without the path of the whole body: code gives a value, and no body.
  const places = Array.from(
    Map.groupBy(known.fieldErrors ?? [], ({ path }) => path),
    ([path, errors]) => `${path} ${errors.map(({ sentence }) => sentence).join(', ')}`.trim(),
  );
  const message = [known.message, ...places.map((place) => `${place}.`)].join(' ');
  return new CallFault(known.code.toUpperCase(), message.slice(0, MESSAGE_LENGTH_MAX), known.status);
};

/** Tells the echo guard of tokens that `svc.tokens` has read. What expressions open is noted where it is opened. */
const noteRecords = ({ noteOpened }: Work, answer: Json): void => {
  if (!noteOpened || typeof answer !== 'object' || answer === null) return;
  const { data } = answer as { data?: Json };
  for (const record of Array.isArray(data) ? data : [answer]) {
    const { id, data: value } = (record ?? {}) as { id?: Json; data?: Json };
    if (typeof id === 'string' && value !== undefined) noteOpened(id, value);
  }
};

/**
 * Answers one call.
 * @param work of the application whose permissions the code has.
 * @param opened the token values that the run has seen; those of this answer are added.
 * @throws CallFault for an unknown method; AppError, as the API. The supervisor refuses an answer that is too large for an executor.
 */
export const answerService = async (
  ctx: CodeContext,
  work: Work,
  { kind, input, opened }: { kind: string; input: unknown; opened: OpenedTexts },
): Promise<unknown> => {
  const method = methods.get(kind);
  if (!method) throw new CallFault('NOT_FOUND', 'There is no such method.', 404);
  if (kind === 'svc:detokenize') await ctx.accounts.runInTurns(work.tenant_id, opened.refuseIn(bodyOf(ctx, input)));
  const answer = await allOrNothing(work, (asking) => method(ctx, asking, input));
  await ctx.accounts.finishInTurns(work.tenant_id, opened.add(answer as Json));
  noteRecords(work, answer as Json);
  return answer;
};
