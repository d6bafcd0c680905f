// Answers `svc` of a tenant's code: the rules that the API's routes call, with what an application may, and answers as they
// are on the wire. The methods are a closed list; the application's key is nowhere near (security.md rule 7).
import { z } from 'zod';
import { allOrNothing } from '../access/answer-record.ts';
import type { Caller } from '../access/caller.ts';
import type { Context } from '../context.ts';
import { AppError, fieldErrors, internal, invalidField, invalidInput, notFound, payloadTooLarge } from '../errors.ts';
import { pageFields, pageOf } from '../paging.ts';
import { CallFault } from '../sandbox/sandbox.ts';
import { UNKNOWN_NAMES_MAX, unknownName } from '../unknown-names.ts';
import { changeToken, deleteToken } from '../vault/change-token.ts';
import { createToken } from '../vault/create-tokens.ts';
import { detokenize } from '../vault/detokenize.ts';
import { formatPath, type Json } from '../vault/json.ts';
import { jsonSize } from '../vault/meter.ts';
import type { OpenedTexts } from '../vault/opened-texts.ts';
import { getToken, searchTokens } from '../vault/read-tokens.ts';
import { searchQueryText } from '../vault/search-query.ts';
import { TOKEN_ID_LENGTH_MAX } from '../vault/token-id.ts';
import { tokenize } from '../vault/tokenize.ts';

/** What a call that failed may say. */
const MESSAGE_LENGTH_MAX = 4096;

/**
 * What a body of the API may weigh binds what comes from code as well: nothing is kept that nobody could have sent.
 * @throws payloadTooLarge.
 */
export const checkWeight = (ctx: Pick<Context, 'config'>, body: Json, what: string): void => {
  const { bodyBytesMax } = ctx.config;
  if (jsonSize(body, bodyBytesMax).bytes > bodyBytesMax)
    throw payloadTooLarge(`${what} must be at most ${bodyBytesMax} bytes.`);
};

const parse = <T extends z.ZodObject>(schema: T, input: unknown): z.output<T> => {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const names = Object.keys(schema.shape);
  throw invalidInput(
    fieldErrors(
      parsed.error.issues.flatMap((issue): [path: string, sentence: string][] =>
        issue.code === 'unrecognized_keys'
          ? issue.keys.slice(0, UNKNOWN_NAMES_MAX).map((name) => [formatPath([name]), unknownName(name, names)])
          : [[formatPath(issue.path as (string | number)[]), issue.message]],
      ),
    ),
  );
};

/** A property of what the code sent, as JSON; the supervisor has parsed it. */
const partOf = (ctx: Context, input: unknown, name: string): Json | undefined => {
  const given = typeof input === 'object' && input !== null && Object.hasOwn(input, name);
  const part = given ? (input as Record<string, Json>)[name] : undefined;
  if (part !== undefined) checkWeight(ctx, part, 'What is sent');
  return part;
};

const bodyOf = (ctx: Context, input: unknown): Json => {
  const body = partOf(ctx, input, 'body');
  if (body === undefined) throw invalidField('', 'a value is needed');
  return body;
};

const given = z.object({ id: z.string('must be the id of a token') }, 'must have the id of a token');

/** @throws notFound for what is longer than any id: a path would not take it either. */
const idOf = (input: unknown): string => {
  const { id } = parse(given, input);
  if (id.length > TOKEN_ID_LENGTH_MAX) throw notFound('token');
  return id;
};

const search = z.strictObject({ query: searchQueryText, ...pageFields }, 'must be an object with a query');

type Method = (ctx: Context, caller: Caller, input: unknown) => Promise<unknown>;

const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['svc:tokenize', async (ctx, caller, input) => tokenize(ctx, caller, bodyOf(ctx, input))],
  ['svc:detokenize', async (ctx, caller, input) => detokenize(ctx, caller, bodyOf(ctx, input))],
  [
    'svc:tokens.create',
    async (ctx, caller, input) => createToken(ctx, caller, { request: partOf(ctx, input, 'token') }),
  ],
  ['svc:tokens.retrieve', async (ctx, caller, input) => getToken(ctx, caller, idOf(input))],
  [
    'svc:tokens.update',
    async (ctx, caller, input) => changeToken(ctx, caller, idOf(input), partOf(ctx, input, 'patch')),
  ],
  [
    'svc:tokens.delete',
    async (ctx, caller, input) => {
      await deleteToken(ctx, caller, idOf(input));
      return null;
    },
  ],
  [
    'svc:tokens.search',
    async (ctx, caller, input) => {
      const { query, ...page } = parse(search, input);
      return searchTokens(ctx, caller, { query, page: pageOf(page) });
    },
  ],
]);

/** Failures of a destination and of a tenant's code are none of ours. */
const isOurs = ({ code }: AppError): boolean => code === 'internal' || code === 'unavailable';

/** What went wrong, in words that code may see: those of the API, with the places of a problem behind them. */
export const callFaultOf = (ctx: Pick<Context, 'log'>, error: unknown): CallFault => {
  const known = error instanceof AppError ? error : internal(error);
  if (isOurs(known)) ctx.log.error({ error: known, code: known.code }, 'a call of code failed');
  const places = Object.entries(known.errors ?? {}).map(([place, sentences]) =>
    `${place} ${sentences.join(', ')}`.trim(),
  );
  const message = [known.message, ...places.map((place) => `${place}.`)].join(' ');
  return new CallFault(known.code.toUpperCase(), message.slice(0, MESSAGE_LENGTH_MAX), known.status);
};

/**
 * Answers one call.
 * @param caller the application on whose behalf the code runs.
 * @param opened what the run has seen of tokens; gets what this call shows.
 * @throws CallFault for an unknown method; AppError, as the API would answer. What is too large for an executor, its supervisor says.
 */
export const answerService = async (
  ctx: Context,
  caller: Caller,
  { kind, input, opened }: { kind: string; input: unknown; opened: OpenedTexts },
): Promise<unknown> => {
  const method = methods.get(kind);
  if (!method) throw new CallFault('NOT_FOUND', 'There is no such method.', 404);
  if (kind === 'svc:detokenize') opened.refuseIn(bodyOf(ctx, input));
  const answer = await allOrNothing(caller, (asking) => method(ctx, asking, input));
  opened.add(answer as Json);
  return answer;
};
