// Args of an invocation: replaces expressions by values of tokens, and limits depth and size.
import type { Accounts, Reservation } from '../../platform/base/accounts.ts';
import type { Use } from '../access/bounds.ts';
import type { Work } from '../access/work.ts';
import type { CodeContext } from './context.ts';
import { invalidField, payloadTooLarge } from '../../platform/base/errors.ts';
import { stringifyInSlices } from '../../platform/json/slices.ts';
import { findShapeProblem } from '../../platform/json/json-shape.ts';
import { RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { megabytes } from '../../platform/base/size-text.ts';
import { detokenizeForUse, type LogDetails } from '../tokens/detokenize.ts';
import type { Json } from '../../platform/json/json.ts';

// Reserves memory for the input and the result of a run before they are made.

/** Less is not counted: it costs less than the run. */
const FREE_BYTES = 65_536;

export type RunBytes = {
  /** How much is held. */
  readonly bytes: number;
  /** The input is not needed any more when there is a result: the larger of the two counts. @throws too_many_requests; unavailable. */
  growTo(bytes: number): void;
  release(): void;
};

export const holdRunBytes = (accounts: Pick<Accounts, 'reserve'>, account: string): RunBytes => {
  const held: Reservation[] = [];
  let total = 0;
  return {
    get bytes() {
      return total;
    },
    growTo: (bytes) => {
      if (bytes <= total || bytes <= FREE_BYTES) return;
      held.push(accounts.reserve(account, 'run_bytes', bytes - total));
      total = bytes;
    },
    release: () => {
      for (const each of held.splice(0)) each.release();
    },
  };
};

export type OpenedArgs = { args: Json | undefined; isLogged: boolean };

/**
 * Replaces expressions by values, under the caller's token:use. The log rows are committed when this returns.
 * @param options.beside rows that are written with those of the tokens.
 * @param options.write writes all of these rows.
 * @param options.use what is done with the values, for their bounds.
 * @param options.held memory for the values, which is reserved before they are opened.
 * @returns `isLogged`: whether there were tokens, and so whether the rows were written.
 * @throws badRequest for unknown tokens; forbidden; invalidInput with places that begin with `args`; payloadTooLarge; unavailable.
 */
export const openArgs = async (
  ctx: CodeContext,
  work: Work,
  args: Json | undefined,
  { held, use, ...rows }: Pick<LogDetails, 'beside' | 'write'> & { held: RunBytes; use: Use },
): Promise<OpenedArgs> => {
  if (args === undefined) return { args, isLogged: false };
  const { value, isLogged } = await detokenizeForUse(ctx, work, { args }, use, { ...rows, beforeOpening: held.growTo });
  const opened = (value as { args: Json }).args;
  // The parser limits the depth of a body; with the values of tokens it may be deeper.
  const problem = isLogged ? await ctx.accounts.runInTurns(work.tenant_id, findShapeProblem(opened)) : undefined;
  if (problem !== undefined) throw invalidField('args', problem);
  return { args: opened, isLogged };
};

const inputText = (input: string): string => {
  if (Buffer.byteLength(input) > RUN_BYTES_MAX)
    throw payloadTooLarge(
      `The args, with the values of tokens in them, must not be larger than ${megabytes(RUN_BYTES_MAX)}.`,
    );
  return input;
};

/** @param lost_body the error for code that reads `args.body`, if it is exact in `args.raw_body` only. */
type Input = { args: Json; configuration: Json; has_svc: boolean; lost_body?: string | undefined };

/** The input of the code's function, as JSON text. @throws payloadTooLarge. */
export const inputOf = (given: Input): string => inputText(JSON.stringify(given));

/** The same without blocking the event loop. */
export const inputInTurns = async (
  ctx: Pick<CodeContext, 'accounts'>,
  account: string,
  given: Input,
  isLarge: boolean,
): Promise<string> =>
  isLarge ? inputText(await ctx.accounts.runInTurns(account, stringifyInSlices(given))) : inputOf(given);
