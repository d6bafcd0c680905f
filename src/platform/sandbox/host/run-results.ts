// Parses what runs return or throw. Large results are parsed in slices, and their memory is reserved first.
import type { Accounts } from '../../base/accounts.ts';
import { AppError } from '../../base/errors.ts';
import { runAtOnce } from '../../json/slices.ts';
import { faultOfBody, type ParsedBody, parseBodyInSlices } from './heads.ts';
import { accountOf, busy, charged, CpuSpent, type Result, type Run } from './run.ts';

export type ResultOptions = {
  accounts: Pick<Accounts, 'runInTurns'>;
  outputBytesMax: number;
};

const resultOf = (ok: boolean, bytes: number, parsed: ParsedBody): Result => {
  if (!ok) return faultOfBody(parsed);
  return 'value' in parsed
    ? { value: parsed.value, bytes }
    : { code: 'THROWN', message: `The result ${parsed.problem}.` };
};

export const createResults = ({ accounts, outputBytesMax }: ResultOptions) => ({
  /** For small bodies. @throws ProtocolError. */
  parse: (run: Run, ok: boolean, body: string): Result => {
    if (run.isCheck && ok) return { value: undefined, bytes: 0 };
    try {
      return resultOf(ok, body.length, runAtOnce(charged(run, parseBodyInSlices(body))));
    } catch (error) {
      if (error instanceof CpuSpent) return { code: 'TIMEOUT_CPU' };
      throw error;
    }
  },
  /** The run has left its executor, which goes on with others. @throws ProtocolError. */
  parseInTurns: async (run: Run, ok: boolean, body: string): Promise<Result> => {
    const bytes = Buffer.byteLength(body);
    if (ok && bytes > outputBytesMax) return { code: 'OUTPUT_TOO_LARGE' };
    try {
      run.job.reserveBytes?.(bytes);
      return resultOf(ok, bytes, await accounts.runInTurns(accountOf(run.job), charged(run, parseBodyInSlices(body))));
    } catch (error) {
      if (error instanceof CpuSpent) return { code: 'TIMEOUT_CPU' };
      if (error instanceof AppError) return busy(error.code === 'too_many_requests' ? 'tenant' : 'all');
      throw error;
    }
  },
});
