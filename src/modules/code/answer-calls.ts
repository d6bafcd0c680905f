// Answers `fetch` and `svc` calls of running code, with the permissions of its application and a limit on their number.
import { z } from 'zod';
import type { CodeContext } from './context.ts';
import type { Account } from '../../platform/base/accounts.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { egressFetch } from '../../platform/egress/fetch.ts';
import { loopMark, requestHeaders } from '../../platform/egress/headers.ts';
import {
  type Call,
  CallFault,
  FETCHES_MAX,
  RUN_BYTES_MAX,
  SERVICE_CALLS_MAX,
} from '../../platform/sandbox/protocol/sandbox.ts';
import { fetchMs } from '../../platform/base/times.ts';
import { megabytes } from '../../platform/base/size-text.ts';
import type { Work } from '../access/work.ts';
import { type Actor, failedRows, logRow, type LogRow, SENT_BY_CODE } from '../../platform/db/audit-record.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { Json } from '../../platform/json/json.ts';
import type { OpenedTexts } from '../tokens/expressions/opened-texts.ts';
import type { Run } from '../runs/run.ts';
import { answerService, callFaultOf } from './service-client.ts';

// Answers `fetch` and `https.request` of running code: validates the request, sends it through egress, returns JSON.

const URL_LENGTH_MAX = 8192;
const HEADERS_MAX = 100;
const HEADER_LENGTH_MAX = 16_384;
/** Four characters of base64 hold three bytes. */
const BASE64_LENGTH_MAX = Math.ceil(RUN_BYTES_MAX / 3) * 4;

const headersError = `must have headers that are pairs of texts of at most ${HEADER_LENGTH_MAX} characters`;
const headerPart = z.string(headersError).max(HEADER_LENGTH_MAX, headersError);

/** Each message continues "The request". Egress validates headers and destination. */
const request = z.object(
  {
    url: z.string('must have a url').max(URL_LENGTH_MAX, `must have a url of at most ${URL_LENGTH_MAX} characters`),
    method: z.string('must have a method').regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/, 'must have a valid method'),
    headers: z
      .array(z.tuple([headerPart, headerPart], headersError), headersError)
      .max(HEADERS_MAX, `must have at most ${HEADERS_MAX} headers`),
    body: z
      .string('must have a body that is bytes, or none')
      .max(BASE64_LENGTH_MAX, `must have a body of at most ${megabytes(RUN_BYTES_MAX)}`)
      .nullable(),
    redirect: z.enum(['follow', 'manual', 'error'], 'must follow redirects, or leave them, or refuse them'),
  },
  'must be an object',
);

/** Answer to `fetch` in the form that code in the sandbox takes, with `body` in base64. */
type FetchAnswer = {
  status: number;
  status_text: string;
  headers: [name: string, value: string][];
  body: string;
  url: string;
  redirected: boolean;
};

type FetchRights = {
  tenant_id: string;
  /** Account whose shares are used; the tenant's if absent. */
  account?: Account | undefined;
  /** The host must be in each of them. */
  allowLists: readonly (readonly string[])[];
  /** The header that marks requests of this vault, to detect loops; undefined for none. */
  mark: [name: string, value: string] | undefined;
  /** Undefined outside a vault. */
  log: SendLog | undefined;
};

/** Writes a log row for each host before a request is sent to it. */
type SendLog = {
  sending(host: string): Promise<void>;
  /** The request to the last host failed. */
  failed(): Promise<void>;
};

/** @throws CallFault with a code of egress, or INVALID_INPUT. */
export const answerFetch = async (
  ctx: Pick<CodeContext, 'egress' | 'accounts'>,
  { tenant_id, account, allowLists, mark, log }: FetchRights,
  { input, signal, sent, endsAtMs }: Pick<Call, 'input' | 'signal' | 'sent' | 'endsAtMs'>,
): Promise<FetchAnswer> => {
  const parsed = request.safeParse(input);
  if (!parsed.success)
    throw new CallFault('INVALID_INPUT', `The request ${parsed.error.issues[0]?.message ?? 'is not valid'}.`);
  const { body, ...asked } = parsed.data;
  const timeMs = fetchMs(endsAtMs - performance.now());
  try {
    const answer = await egressFetch(ctx, {
      ...asked,
      // Added after headers that `Connection` names were removed, so that code cannot remove it.
      headers: mark ? [...requestHeaders(asked.headers), mark] : asked.headers,
      tenant_id,
      account,
      allowLists,
      ...(body !== null && { body: Buffer.from(body, 'base64') }),
      signal,
      bodyBytesMax: RUN_BYTES_MAX,
      timeouts: { firstByteMs: timeMs, wholeMs: timeMs },
      beforeSend: log?.sending,
    });
    // The bytes count as held in memory until they were sent to the executor.
    void sent.then(() => answer.release());
    return {
      status: answer.status,
      status_text: answer.statusText,
      headers: answer.headers,
      body: answer.body.toString('base64'),
      url: answer.url,
      redirected: answer.redirected,
    };
  } catch (error) {
    await log?.failed();
    if (error instanceof EgressFault) throw new CallFault(error.code, error.message);
    throw error;
  }
};

/** The application whose permissions the code has, as it is now; undefined for none, and where it was deleted. */
export type FindApplication = () => Promise<Work | undefined>;

/** Answers `svc.proxy`, with the same forwarding as the proxy. @throws AppError or CallFault. */
export type AnswerProxy = (application: Work, call: Call) => Promise<unknown>;

export type CodeRights = {
  tenant_id: string;
  /** Account whose shares its requests use; the tenant's if absent. */
  account?: Account | undefined;
  /** The caller of the run. */
  actor: Actor;
  /** The reactor or proxy of the code. */
  entity: { entity_type: 'reactor' | 'proxy'; entity_id: string };
  /** Resolves when the log rows of the code's input are written: no call is answered before. */
  logged: Promise<void>;
  /** Called for each call: permissions may be revoked during a run. */
  findApplication: FindApplication;
  /** Hosts that `fetch` is narrowed to, beside those of the application. */
  allowLists: readonly (readonly string[])[];
  answerProxy: AnswerProxy;
  /** The token values that the code has seen. */
  opened: OpenedTexts;
  /** What is known of the run. */
  run: Run;
};

/** Log rows of one `fetch`. */
const sendLogOf = (
  ctx: CodeContext,
  { tenant_id, actor, entity: { entity_type, entity_id }, run }: CodeRights,
): SendLog => {
  const write = (rows: LogRow[]): Promise<unknown> => ctx.db.for({ tenant_id }).insertLogs(rows);
  let last: LogRow | undefined;
  let lastHost: string | undefined;
  return {
    sending: async (host) => {
      run.sending(host);
      // A redirect within a host has its row already.
      if (lastHost === host) return;
      const row = logRow(ctx, actor, {
        operation: 'use',
        entity_type,
        entity_ids: [entity_id],
        message: SENT_BY_CODE,
        destination_host: host,
      });
      await write([row]);
      last = row;
      lastHost = host;
    },
    failed: async () => {
      if (last) await write(failedRows(ctx, [last]));
    },
  };
};

/** Counts calls although the executor does: an attacker may control the executor. */
export const answerCalls = (ctx: CodeContext, rights: CodeRights): ((call: Call) => Promise<unknown>) => {
  const left = { fetch: FETCHES_MAX, service: SERVICE_CALLS_MAX };
  const count = (kind: keyof typeof left): void => {
    if (left[kind] === 0) throw new CallFault('CALL_LIMIT', 'The run made more calls than it may.');
    left[kind] -= 1;
  };
  return async (call) => {
    const { kind, input, signal } = call;
    count(kind === 'fetch' || kind === 'svc:proxy' ? 'fetch' : 'service');
    try {
      await rights.logged;
      const application = await rights.findApplication();
      // The run ended during the wait.
      if (signal.aborted) throw new CallFault('ABORTED', 'The run is over.');
      if (kind === 'fetch') {
        const own = application?.caller.allowed_hosts;
        const allowLists = own ? [...rights.allowLists, own] : rights.allowLists;
        const { tenant_id, account } = rights;
        const answer = await answerFetch(
          ctx,
          { tenant_id, account, allowLists, mark: loopMark(ctx), log: sendLogOf(ctx, rights) },
          call,
        );
        rights.run.destinationAnswered(answer.status);
        return answer;
      }
      if (!application) throw new CallFault('FORBIDDEN', 'The code has no application.', 403);
      try {
        if (kind === 'svc:proxy') {
          const answer = await rights.answerProxy(application, call);
          // A destination may echo token values of the request.
          const { tenant_id, account = tenant_id } = rights;
          await ctx.accounts.finishInTurns(account, rights.opened.add(answer as Json));
          return answer;
        }
        return await answerService(ctx, application, { kind, input, opened: rights.opened });
      } catch (error) {
        // The caller of the run sees only what the code makes of the error: the log has the refusal.
        if (error instanceof AppError && error.code === 'forbidden')
          await ctx.refusals.record(application, error, undefined);
        throw error;
      }
    } catch (error) {
      const fault = error instanceof CallFault ? error : callFaultOf(ctx, error);
      rights.run.callFailed(fault);
      throw fault;
    }
  };
};
