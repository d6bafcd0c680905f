// How long a stored proxy keeps the security codes that it sends: to the end of their time, or until the destination has answered
// (docs/decisions/0132-code-until-answered.md).
import { z } from 'zod';
import type { Spending } from '../tokens/bound-uses.ts';
import type { CodeClaim } from '../tokens/code-claim.ts';
import { stepsOfPath } from '../tokens/expressions/json-path.ts';
import type { EgressResponse } from '../../platform/egress/client.ts';
import type { Account, Accounts } from '../../platform/base/accounts.ts';
import { codingsOf } from '../../platform/egress/body.ts';
import { optional } from '../../platform/base/optional.ts';
import { type Json, parseJson, valueAt } from '../../platform/json/json.ts';
import { MAY_HAVE_ACTED } from '../../platform/base/egress-fault.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Reservations } from './bodies/take-body.ts';
import { joined, piecesOf, takeUpTo } from './held-body.ts';

/** Answers that say nothing about the card: too many requests, and a destination that is not there. */
export const KEPT_STATUSES = [429, 502, 503, 504];

const LIST_MAX = 20;

const TEXT_LENGTH_MAX = 200;

/** An answer of a processor has some kilobytes. A larger one is not read, and keeps nothing. */
export const READ_ANSWER_BYTES_MAX = 256 * 1024;

const PATH_NEEDED = 'must be a JSONPath that names one place, such as $.decline.type';
const STATUS_NEEDED = 'must be a status of HTTP, from 200 to 599';
const EQUALS_NEEDED = `must be 1 to ${LIST_MAX} texts of at most ${TEXT_LENGTH_MAX} characters, numbers, true, false or null`;

const equal = z.union([z.string().max(TEXT_LENGTH_MAX), z.number(), z.boolean(), z.null()], EQUALS_NEEDED);

const fields = {
  until: z.enum(['ttl', 'answered'], 'must be ttl or answered').meta({
    description:
      '`ttl`: a security code lives to the end of its time. `answered`: it is deleted when the destination has answered, before the caller gets the answer.',
    example: 'answered',
  }),
  statuses: z
    .array(z.int(STATUS_NEEDED).min(200, STATUS_NEEDED).max(599, STATUS_NEEDED), 'must be a list of statuses')
    .max(LIST_MAX, `must have at most ${LIST_MAX} statuses`),
  path: z
    .string(PATH_NEEDED)
    .max(TEXT_LENGTH_MAX, PATH_NEEDED)
    .refine((path) => stepsOfPath(path) !== undefined, PATH_NEEDED)
    .meta({ description: 'The place in the answer: a JSONPath of names and indexes.', example: '$.decline.type' }),
  equals: z
    .array(equal, EQUALS_NEEDED)
    .min(1, EQUALS_NEEDED)
    .max(LIST_MAX, EQUALS_NEEDED)
    .meta({
      description: 'Values of this place that keep the code.',
      example: ['soft'],
    }),
};

const whenGiven = z
  .object({ path: fields.path, equals: fields.equals }, 'must be an object')
  .meta({ id: 'CodeKeepWhenRequest', description: 'A place of the answer, and its values that keep the code.' });

const keepGiven = z
  .object(
    {
      statuses: optional(fields.statuses).meta({
        description: `Statuses of answers that keep the code. Left out: ${KEPT_STATUSES.join(', ')}.`,
        example: KEPT_STATUSES,
      }),
      when: optional(whenGiven).meta({
        description: `Keeps the code where a place of the answer has one of these values, for processors that decline with 200. Of JSON of at most ${READ_ANSWER_BYTES_MAX / 1024} KB.`,
      }),
    },
    'must be an object',
  )
  .meta({ id: 'CodeKeepRequest', description: 'Answers that keep the security code.' });

/** In a request. */
export const codeRuleGiven = z
  .object(
    {
      until: fields.until,
      keep: optional(keepGiven).meta({ description: 'Answers that keep the code, twice at most.' }),
    },
    'must be an object with until',
  )
  .refine(({ until, keep }) => until === 'answered' || !keep, {
    path: ['keep'],
    message: 'must be left out where until is ttl',
  })
  .meta({ id: 'CodeRuleRequest', description: 'When security codes that the proxy sends are deleted.' });

export type CodeRule = z.output<typeof codeRuleGiven>;

const whenShown = z
  .object({
    path: z.string().meta({ description: 'The place in the answer.', example: '$.decline.type' }),
    equals: z.array(z.any()).meta({ description: 'Values that keep the code.', example: ['soft'] }),
  })
  .meta({ id: 'CodeKeepWhen', description: 'A place of the answer, and its values that keep the code.' });

const keepShown = z
  .object({
    statuses: z
      .array(z.number().meta({ example: 429 }))
      .optional()
      .meta({ description: 'Statuses of answers that keep the code.', example: KEPT_STATUSES }),
    when: whenShown.optional().meta({ description: 'A place of the answer, and its values that keep the code.' }),
  })
  .meta({ id: 'CodeKeep', description: 'Answers that keep the security code.' });

/** In a response. */
export const codeRuleShown = z
  .object({
    until: z.string().meta({
      'x-extensible-enum': ['ttl', 'answered'],
      description: 'When a security code is deleted.',
      example: 'answered',
    }),
    keep: keepShown.optional().meta({ description: 'Answers that keep the code.' }),
  })
  .meta({ id: 'CodeRule', description: 'When security codes that the proxy sends are deleted.' });

type Answered = { answer: EgressResponse; isKept: boolean };

type Charged = { accounts: Accounts };

type Reading = { account: Account; reservations: Reservations };

/** Reads what a rule asks of an answer. What was read of the body is in the body of the answer again. */
const readAnswer = async (
  { accounts }: Charged,
  { keep }: CodeRule,
  answer: EgressResponse,
  { account, reservations }: Reading,
): Promise<Answered> => {
  const { statuses = KEPT_STATUSES, when } = keep ?? {};
  if (statuses.includes(answer.status)) return { answer, isKept: true };
  const { bodyBytes = 0, headers } = answer;
  const isLong = bodyBytes > READ_ANSWER_BYTES_MAX || codingsOf(headers).length > 0;
  // Memory is no reason to withhold the answer of a processor.
  const isFull = accounts.findRefusal(account, 'response_bytes', READ_ANSWER_BYTES_MAX) !== undefined;
  if (!when || isLong || isFull) return { answer, isKept: false };
  const stream = piecesOf(answer.body);
  const { pieces, isWhole } = await takeUpTo(stream, READ_ANSWER_BYTES_MAX, () => {
    reservations.push(accounts.hold(account, 'response_bytes', READ_ANSWER_BYTES_MAX));
  });
  const value = isWhole ? parseJson(Buffer.concat(pieces).toString('utf8')) : undefined;
  const found = valueAt(value as Json, stepsOfPath(when.path) ?? []);
  return { answer: { ...answer, body: joined(pieces, stream) }, isKept: when.equals.some((each) => each === found) };
};

/** What an answer decides about. `spending`: of a request with an allowance. */
type Settling = { claim: CodeClaim; spending: Spending | undefined; rule: CodeRule };

/**
 * Lets the codes of a request go, or keeps them and gives its use back, as its answer says. Resolves before the caller sees a byte of it.
 * @throws unavailable where the codes could not be deleted; the fault of an answer that breaks off while it is read.
 */
export const settleCodes = async (
  ctx: Charged,
  { claim, spending, rule }: Settling,
  answer: EgressResponse,
  reading: Reading,
): Promise<EgressResponse> => {
  if (!claim.isHeld && !spending) return answer;
  try {
    const read = await readAnswer(ctx, rule, answer, reading).catch(async (error: unknown) => {
      // Its head has come: the destination has answered.
      await claim.settle(false);
      throw error;
    });
    await claim.settle(read.isKept);
    // A use that cannot be given back stays counted.
    if (read.isKept) await spending?.giveBack().catch(() => undefined);
    return read.answer;
  } catch (error) {
    answer.body.destroy();
    if (!(error instanceof AppError)) throw error;
    const sentence = `The destination has answered, and the security code could not be deleted. ${MAY_HAVE_ACTED}`;
    throw new AppError(error.code, sentence, { cause: error, retryAfterSeconds: error.retryAfterSeconds });
  }
};
