// Handles calls of running code: checks size and number, parses the arguments, and sends the result back.
import { type Accounts } from '../../base/accounts.ts';
import { callHead, PARSED_AT_ONCE, type ParsedBody, parseBodyInSlices, parseHead } from './heads.ts';
import { runAtOnce, stringifyInSlices } from '../../json/slices.ts';
import type { Lease } from './lease.ts';
import { encodeFrame, type Frame, FRAME_BODY_BYTES_MAX, frameKinds, ProtocolError } from '../protocol/frames.ts';
import { CallFault, FETCHES_MAX, type RunFault, SERVICE_CALLS_MAX } from '../protocol/sandbox.ts';
import { accountOf, charged, CpuSpent, type Run } from './run.ts';

/** Calls of one run. A correct executor enforces the same limit. */
const CALLS_MAX = FETCHES_MAX + SERVICE_CALLS_MAX;
/** JSON values in the arguments of a call: headers of a request, or a body to tokenize. */
const CALL_VALUES_MAX = 25_000;
/** Bytes beside the body of a service call: names, an id. */
const BESIDE_BODY_BYTES = 1024;

/** The result of a call whose real result does not fit into a frame. */
const TOO_LARGE = JSON.stringify({ code: 'BODY_TOO_LARGE', message: 'The answer is larger than code may get.' });

const textOfFault = (error: unknown): string =>
  JSON.stringify(
    error instanceof CallFault
      ? { code: error.code, message: error.message, status: error.status }
      : { code: 'INTERNAL', message: 'The call failed.' },
  );

export type CallOptions = {
  accounts: Pick<Accounts, 'runInTurns' | 'finishInTurns'>;
  /** Of the body of a service call, as of a request to the API. */
  callBytesMax: number;
  violate(lease: Lease<Run>, reason: string): void;
  stop(run: Run, fault: RunFault): void;
};

export const createCalls = ({ accounts, callBytesMax, violate, stop }: CallOptions) => {
  /** Parses what is sent: at once, or in slices if it is large. @throws CallFault; ProtocolError; CpuSpent; too_many_requests. */
  const parse = (run: Run, kind: string, body: string): ParsedBody | Promise<ParsedBody> => {
    const isApi = kind !== 'fetch' && kind !== 'svc:proxy';
    if (isApi && body.length > callBytesMax + BESIDE_BODY_BYTES)
      throw new CallFault('PAYLOAD_TOO_LARGE', `What is sent must be at most ${callBytesMax} bytes.`, 413);
    const slices = charged(run, parseBodyInSlices(body, CALL_VALUES_MAX));
    return body.length <= PARSED_AT_ONCE ? runAtOnce(slices) : accounts.runInTurns(accountOf(run.job), slices);
  };

  const lastOf = new WeakMap<Lease<Run>['executor'], Promise<void>>();
  /** Results for one executor are written one after another: each may be megabytes. */
  const afterOthers = (lease: Lease<Run>, work: () => Promise<void>): Promise<void> => {
    const done = (lastOf.get(lease.executor) ?? Promise.resolve()).then(work);
    lastOf.set(
      lease.executor,
      done.catch(() => undefined),
    );
    return done;
  };

  /** @throws ProtocolError. */
  return (lease: Lease<Run>, run: Run, { head, body }: Frame): void => {
    const { call: callId, kind } = parseHead(callHead, head);
    if (run.calls.has(callId)) throw new ProtocolError('a call has the number of another');
    run.calls.add(callId);
    if (run.calls.size > CALLS_MAX) throw new ProtocolError('a run makes more calls than it may');
    const { signal } = (run.aborter ??= new AbortController());
    const settle = (ok: boolean, json: string): void => {
      // The run has ended: its code does not wait for the answer.
      if (lease.runs.get(run.id) !== run) return;
      if (Buffer.byteLength(json) > FRAME_BODY_BYTES_MAX) return settle(false, TOO_LARGE);
      lease.executor.send(encodeFrame(frameKinds.SETTLE, run.id, { call: callId, ok }, json));
    };
    const { promise: sent, resolve: markSent } = Promise.withResolvers<void>();
    const answer = async (): Promise<[boolean, () => string | Promise<string>]> => {
      try {
        const parsing = parse(run, kind, body);
        const parsed = parsing instanceof Promise ? await parsing : parsing;
        if ('problem' in parsed) throw new CallFault('INVALID_INPUT', `What is sent ${parsed.problem}.`);
        const value = await run.job.answerCall({ kind, input: parsed.value, signal, sent, endsAtMs: run.endsAtMs });
        return [true, () => accounts.finishInTurns(accountOf(run.job), stringifyInSlices(value))];
      } catch (error) {
        if (error instanceof ProtocolError) violate(lease, error.message);
        if (error instanceof CpuSpent) stop(run, { code: 'TIMEOUT_CPU' });
        return [false, () => textOfFault(error)];
      }
    };
    void answer()
      .then(([ok, text]) =>
        afterOthers(lease, async () => {
          // When the executor has read enough of the earlier ones.
          await lease.executor.hasRoom();
          if (lease.runs.get(run.id) === run) settle(ok, await text());
        }),
      )
      // A value that cannot be serialised, such as one nested 100,000 deep, fails the call.
      .catch((error: unknown) => settle(false, textOfFault(error)))
      .finally(markSent);
  };
};
