// Finds who asks: the stored proxy of a request, the caller, and how strictly the answer is guarded.
import type { AnswerRecord } from '../access/answer-record.ts';
import { holdsApiKey } from '../access/api-keys.ts';
import { ECHO_MODE_NEEDED, type EchoMode, echoModeOf, strictestOf } from '../access/echo-mode.ts';
import { Work } from '../access/work.ts';
import type { Actor, Usage } from '../../platform/db/audit-record.ts';
import { invalidField, notFound, unauthorized } from '../../platform/base/errors.ts';
import { createEchoGuard, type EchoGuard, guardOf } from '../tokens/echo/echo-guard.ts';
import type { ProxyContext } from './context.ts';
import { unrefused } from './forwards/keep-answer.ts';
import type { ProxyForUse } from './proxy-finder.ts';
import type { ProxyRequest } from './request.ts';

/** A caller, or an anonymous client of an open proxy. */
export type Acting = Actor & { readonly record?: AnswerRecord | undefined };

const IS_API_KEY =
  'must be the key of a stored proxy, as POST /proxies and the page of the proxy show it. An API key belongs into SVC-API-KEY';

/** The stored proxy that the request names; undefined if the request names its destination. */
export const findProxy = async (
  ctx: ProxyContext,
  { work }: ProxyRequest,
  keys: readonly string[],
): Promise<ProxyForUse | undefined> => {
  if (keys.length > 1) throw invalidField('SVC-PROXY-KEY', 'must name one proxy, in the header or in the query');
  const [key] = keys;
  if (key === undefined) return undefined;
  if (holdsApiKey(key)) throw invalidField('SVC-PROXY-KEY', IS_API_KEY);
  const proxy = await ctx.proxies.findProxyBeforeCaller(key);
  if (!proxy || (work && work.tenant_id !== proxy.tenant_id)) throw notFound('proxy');
  return proxy;
};

/** The caller. Without an API key, the application of an open proxy, or no work if it has none. */
export const findActor = async (
  ctx: ProxyContext,
  { work, origin, beginUsage }: ProxyRequest,
  proxy: ProxyForUse | undefined,
): Promise<{ tenant_id: string; work: Work | undefined; usage?: Usage | undefined }> => {
  const through = proxy ? { ...origin, proxy_id: proxy.id } : origin;
  if (work) return { tenant_id: work.tenant_id, work: work.with({ origin: through }) };
  if (!proxy || proxy.require_auth) throw unauthorized();
  const { tenant_id, application_id } = proxy;
  const usage = beginUsage?.(tenant_id);
  if (application_id === undefined) return { tenant_id, work: undefined, usage };
  const application = await ctx.callers.findCallerOfApplication({ tenant_id }, application_id);
  const acting = { ...through, code_application_id: application_id };
  return { tenant_id, work: application && new Work(ctx, application, { origin: acting, usage }), usage };
};

const GUARD_HEADER = 'svc-echo-guard';

/**
 * The guard of a request from outside: as strict as the stored proxy, or else the caller's application, the application of its code,
 * and the request itself want it; where none says anything, as the tenant wants it. @throws invalidField for another mode.
 */
export const makeGuard = async (
  ctx: ProxyContext,
  { headers, retry }: ProxyRequest,
  proxy: ProxyForUse | undefined,
  work: Work | undefined,
): Promise<EchoGuard | undefined> => {
  const asked = headers.filter(([name]) => name.toLowerCase() === GUARD_HEADER).map(([, value]) => value.trim());
  const wanted = asked.map(echoModeOf);
  if (wanted.includes(undefined)) throw invalidField('SVC-ECHO-GUARD', ECHO_MODE_NEEDED);
  const runsCode = proxy?.request_transform !== undefined || proxy?.response_transform !== undefined;
  const { application_id } = proxy ?? {};
  const ofCode =
    proxy && runsCode && application_id !== undefined
      ? await ctx.callers.findCallerOfApplication(proxy, application_id)
      : undefined;
  const stored = strictestOf([proxy ? proxy.echo_guard : work?.caller.echo_guard, ofCode?.echo_guard]);
  const usual = proxy ? proxy.tenant_echo_guard : work?.caller.tenant_echo_guard;
  const mode = strictestOf([stored ?? usual ?? 'off', ...wanted]) as EchoMode;
  // What is stored of an answer is searched whatever the guard does.
  return retry ? createEchoGuard(unrefused(ctx), mode) : guardOf(ctx, mode, runsCode);
};
