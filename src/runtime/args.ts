// The args of an invocation on their way into the sandbox: expressions opened, shape and size bounded.
import type { Caller } from '../access/caller.ts';
import type { LogRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { invalidField, payloadTooLarge } from '../errors.ts';
import { shapeProblem } from '../json-shape.ts';
import { RUN_BYTES_MAX } from '../sandbox/sandbox.ts';
import { detokenizeForUse } from '../vault/detokenize.ts';
import type { Json } from '../vault/json.ts';

export type OpenedArgs = { args: Json | undefined; isLogged: boolean };

/**
 * Puts values in the place of expressions, under the caller's token:use. Their log rows are committed when this returns.
 * @param beside rows to be written with those of the tokens.
 * @returns `isLogged`: whether there were tokens, and so whether rows were written.
 * @throws badRequest for unknown tokens; forbidden; invalidInput with places that begin with `args`; payloadTooLarge; unavailable.
 */
export const openArgs = async (
  ctx: Context,
  caller: Caller,
  args: Json | undefined,
  beside: readonly LogRow[],
): Promise<OpenedArgs> => {
  if (args === undefined) return { args, isLogged: false };
  const { value, isLogged } = await detokenizeForUse(ctx, caller, { args }, { beside });
  const opened = (value as { args: Json }).args;
  // A body is bounded when it is parsed; with tokens in it, it may be deeper.
  const problem = isLogged ? shapeProblem(opened) : undefined;
  if (problem !== undefined) throw invalidField('args', problem);
  return { args: opened, isLogged };
};

/** What the code's function gets, as JSON text. @throws payloadTooLarge: no executor is troubled with it. */
export const inputOf = (given: { args: Json; configuration: Json; has_svc: boolean }): string => {
  const input = JSON.stringify(given);
  if (Buffer.byteLength(input) > RUN_BYTES_MAX)
    throw payloadTooLarge('The args, with the values of tokens in them, must not be larger than 5 MB.');
  return input;
};
