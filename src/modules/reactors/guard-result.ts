// Searches the result of a reactor, or the error that its code threw, for the values that the run has opened.
import type { Account, Reservation } from '../../platform/base/accounts.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Json } from '../../platform/json/json.ts';
import { parseOutsideInSlices } from '../../platform/json/json-shape.ts';
import { runAtOnce, stringifyInSlices } from '../../platform/json/slices.ts';
import { CodeResponse } from '../code/code-errors.ts';
import type { Run } from '../runs/run.ts';
import { echoFault, type EchoGuard, type Guarded, refuseEchoIn, searchText } from '../tokens/echo/echo-guard.ts';
import type { EchoPlace } from '../tokens/echo/echo-output.ts';
import type { EchoSearch } from '../tokens/echo/echo-scanner.ts';
import type { ReactorsContext } from './context.ts';

export type ResultGuard = {
  /** What may be told of a result of JSON. @throws bad_gateway where it holds a value and is to be blocked. */
  guardResult<T extends Record<string, unknown>>(result: T): Promise<T>;
  /**
   * The same of what code has tokenized, at once: the transaction that writes the tokens keeps the answer. Behind `guardResult`, once for
   * each run.
   */
  guardTokens<T extends Json>(tokens: T): T;
  guardResponse(response: CodeResponse): Promise<CodeResponse>;
  /** @returns the error that may be told. */
  guardError(error: unknown): Promise<unknown>;
  /** Values found so far; undefined where the guard is off. */
  readonly echoes: number | undefined;
};

type Guarding = { account: Account; guard: EchoGuard; run: Run; guarded: Guarded };

const blocked = (): AppError => {
  const cause = echoFault();
  return new AppError('bad_gateway', cause.message, { cause });
};

/** @param reservations get the memory of the search. */
export const createResultGuard = (
  ctx: ReactorsContext,
  { account, guard, run, guarded }: Guarding,
  reservations: Pick<Reservation, 'release'>[],
): ResultGuard => {
  let count = 0;
  let found: EchoSearch | undefined;
  const note = (echoes: number): void => {
    count += echoes;
    run.echoed(echoes);
    guard.report(guarded, echoes);
    if (echoes > 0 && guard.mode === 'block') throw blocked();
  };
  const searchFor = async (text: string, place: EchoPlace, prefix = ''): Promise<string> => {
    found = await guard.search(account, reservations);
    if (!found) return text;
    const searching = searchText(found, Buffer.from(text), { place, prefix });
    const { bytes, echoes } = await ctx.accounts.runInTurns(account, searching);
    note(echoes);
    return echoes === 0 ? text : bytes.toString();
  };
  return {
    get echoes() {
      return guard.mode === 'off' ? undefined : count;
    },
    guardResult: async (result) => {
      if (guard.mode === 'off') return result;
      const text = await ctx.accounts.runInTurns(account, stringifyInSlices(result));
      const masked = await searchFor(text, 'json');
      if (masked === text) return result;
      const { value } = await ctx.accounts.runInTurns(account, parseOutsideInSlices(masked));
      return value as Json & typeof result;
    },
    guardTokens: (tokens) => {
      if (!found) return tokens;
      const { bytes, echoes } = runAtOnce(searchText(found, Buffer.from(JSON.stringify(tokens)), { place: 'json' }));
      note(echoes);
      return echoes === 0 ? tokens : JSON.parse(bytes.toString());
    },
    guardResponse: async ({ status, headers, body }) => {
      const place = headers['content-type']?.includes('json') ? 'json' : 'text';
      const masked: Record<string, string> = {};
      for (const [name, value] of Object.entries(headers))
        if ((await searchFor(name, 'text')) === name) masked[name] = await searchFor(value, 'text', `${name}: `);
      return new CodeResponse(status, masked, body === undefined ? undefined : await searchFor(body, place));
    },
    guardError: async (error) => {
      try {
        const search = await guard.search(account, reservations);
        if (search) await refuseEchoIn(ctx, account, search, error);
        return error;
      } catch (refusal) {
        if (refusal instanceof AppError) return refusal;
        count += 1;
        run.echoed(1);
        guard.report(guarded, 1);
        return blocked();
      }
    },
  };
};
