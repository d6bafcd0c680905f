// Answers the calls of running code: `fetch` by the rules of egress, `svc` with what the code's application may. Counts
// them again: an executor counts too, and may have been taken over. Knows no reactor and no proxy.
import type { Caller } from '../access/caller.ts';
import { type Actor, failedRows, logRow, type LogRow, SENT_BY_CODE } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { AppError } from '../errors.ts';
import { type Call, CallFault, FETCHES_MAX, SERVICE_CALLS_MAX } from '../sandbox/sandbox.ts';
import { loopMark } from '../proxy/loop.ts';
import type { Json } from '../vault/json.ts';
import type { OpenedTexts } from '../vault/opened-texts.ts';
import { answerFetch, type SendLog } from './fetch-client.ts';
import { answerService, callFaultOf } from './service-client.ts';

/** The application on whose behalf the code calls, as it is now; undefined where there is none, or none any more. */
export type FindApplication = () => Promise<Caller | undefined>;

/** `svc.proxy`, which leads out by the same way as the proxy itself. @throws AppError or CallFault. */
export type AnswerProxy = (application: Caller, call: Call) => Promise<unknown>;

export type CodeRights = {
  tenant_id: string;
  /** Who had the code run. */
  actor: Actor;
  /** Whose code it is. */
  entity: { entity_type: 'reactor' | 'proxy'; entity_id: string };
  /** The rows of what the code was given: no call leaves before they are written. */
  logged: Promise<void>;
  /** Asked anew for each call: a run may outlive what its application may. */
  findApplication: FindApplication;
  /** Hosts that `fetch` is narrowed to, beside those of the application. */
  allowLists: readonly (readonly string[])[];
  answerProxy: AnswerProxy;
  /** What of tokens the code has seen. */
  opened: OpenedTexts;
};

/** Makes the log of one `fetch`. */
const sendLogOf = (ctx: Context, { tenant_id, actor, entity: { entity_type, entity_id } }: CodeRights): SendLog => {
  const write = (rows: LogRow[]): Promise<unknown> => ctx.db.for({ tenant_id }).insertLogs(rows);
  let last: LogRow | undefined;
  return {
    sending: async (host) => {
      // A redirect within a host goes where the row says already.
      if (last?.destination_host === host) return;
      const row = logRow(ctx, actor, {
        operation: 'use',
        entity_type,
        entity_ids: [entity_id],
        message: SENT_BY_CODE,
        destination_host: host,
      });
      await write([row]);
      last = row;
    },
    failed: async () => {
      if (last) await write(failedRows(ctx, [last]));
    },
  };
};

export const answerCalls = (ctx: Context, rights: CodeRights): ((call: Call) => Promise<unknown>) => {
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
      // Over while this waited: nothing is done for it any more.
      if (signal.aborted) throw new CallFault('ABORTED', 'The run is over.');
      if (kind === 'fetch') {
        const own = application?.allowed_hosts;
        const allowLists = own ? [...rights.allowLists, own] : rights.allowLists;
        const { tenant_id } = rights;
        return await answerFetch(
          ctx,
          { tenant_id, allowLists, mark: loopMark(ctx), log: sendLogOf(ctx, rights) },
          call,
        );
      }
      if (!application) throw new CallFault('FORBIDDEN', 'The code has no application.', 403);
      try {
        if (kind === 'svc:proxy') {
          const answer = await rights.answerProxy(application, call);
          // A destination may send back what it was sent.
          rights.opened.add(answer as Json);
          return answer;
        }
        return await answerService(ctx, application, { kind, input, opened: rights.opened });
      } catch (error) {
        // The caller of the run sees what code makes of it: the log says that the application was refused.
        if (error instanceof AppError && error.code === 'forbidden')
          await ctx.refusals.record(application, error, undefined);
        throw error;
      }
    } catch (error) {
      throw error instanceof CallFault ? error : callFaultOf(ctx, error);
    }
  };
};
