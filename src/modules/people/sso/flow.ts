// A single sign-on from the first redirect to its end: single-use, and bound to one browser, one tenant and ten minutes.
import { logRow, type RequestOrigin, SIGN_IN_FAILED, SSO_GIVEN_AGAIN } from '../../../platform/db/audit-record.ts';
import { equalDigests, randomBase62, sessionDigest, ssoDigest } from '../../../platform/crypto/digest.ts';
import { runPrismaTransaction } from '../../../platform/db/transaction.ts';
import { placeOfIp } from '../../../platform/base/ip-place.ts';
import { countAttempt, takeBackAttempt } from '../attempts.ts';
import type { PeopleContext } from '../context.ts';
import { findFlowBeforeCaller, insertFlow, replaceSessionState, type StoredFlow, takeFlow } from '../rows/sso.ts';
import { findSessionMemberBeforeCaller } from '../rows/sessions.ts';
import { type Session, startSsoSession } from '../sessions.ts';
import { digestOfSubject, findMemberOfAccount, type IdentityRefusal } from './identity.ts';
import {
  type Claims,
  CLOCK_TOLERANCE_SECONDS,
  type FlowSecrets,
  ProviderFault,
  type ProviderFaultKind,
} from './provider-client.ts';
import { findProviderOf, findProviderOfAddress, type Provider } from './provider.ts';
import { findState, sealState } from './session-state.ts';

/** A person finds the second factor of the provider in this time. */
const FLOW_TTL_MS = 10 * 60_000;

/** 43 base62 characters: 256 bits. */
const SECRET_LENGTH = 43;
const secretPattern = new RegExp(`^[0-9A-Za-z]{${SECRET_LENGTH}}$`);

/** Why a sign-in ends without a session. Each has a sentence on the page. */
export type FlowRefusal =
  | ProviderFaultKind
  | IdentityRefusal
  /** Unknown, finished, too old, or begun in another browser: the page does not say which. */
  | 'expired'
  /** The tenant has no provider any more. */
  | 'off'
  /** The member did not sign in again at the provider, or as someone else. */
  | 'stale';

type FlowResult =
  | { kind: 'signed_in'; secret: string; next: string }
  /** The session of the browser was proven again. */
  | { kind: 'proven'; next: string }
  | { kind: 'refused'; reason: FlowRefusal; isAgain: boolean; next: string };

/** From the state and the secret of the browser, so that the database holds neither nonce nor verifier. */
const secretsOf = ({ pepper }: Pick<PeopleContext, 'pepper'>, state: string, browser: string): FlowSecrets => ({
  state,
  nonce: ssoDigest(pepper, 'nonce', state, browser).toString('base64url'),
  verifier: ssoDigest(pepper, 'verifier', state, browser).toString('base64url'),
});

const macOf = (
  { pepper }: Pick<PeopleContext, 'pepper'>,
  { digest, tenant_id, next, session, created_at, expires_at }: Omit<StoredFlow, 'mac'>,
  browser: string,
): Buffer =>
  ssoDigest(
    pepper,
    'flow',
    Buffer.from(digest).toString('hex'),
    tenant_id,
    next,
    session && Buffer.from(session).toString('hex'),
    created_at.getTime(),
    expires_at.getTime(),
    browser,
  );

type Beginning = {
  next: string;
  /** The secret that the browser has from an earlier flow. */
  browser: string | undefined;
  redirectUriOf: (tenant_id: string) => string;
  origin: RequestOrigin;
};

export type Begun = { url: string; browser: string };

const begin = async (
  ctx: PeopleContext,
  { tenant_id, provider }: { tenant_id: string; provider: Provider },
  { next, browser: given, redirectUriOf, origin }: Beginning,
  more: { login_hint?: string; session?: Uint8Array },
): Promise<Begun> => {
  await countAttempt(ctx, 'sso_from', { place: placeOfIp(origin.ip ?? '') });
  const state = randomBase62(SECRET_LENGTH, ctx.randomBytes);
  // Flows in several tabs share the secret of the browser.
  const browser =
    given !== undefined && secretPattern.test(given) ? given : randomBase62(SECRET_LENGTH, ctx.randomBytes);
  const url = await ctx.providers(tenant_id, provider).authorizationUrl({
    ...secretsOf(ctx, state, browser),
    redirect_uri: redirectUriOf(tenant_id),
    isAgain: more.session !== undefined,
    login_hint: more.login_hint,
  });
  const created_at = ctx.now();
  const row = {
    digest: ssoDigest(ctx.pepper, 'state', state),
    tenant_id,
    next,
    session: more.session ?? null,
    created_at,
    expires_at: new Date(created_at.getTime() + FLOW_TTL_MS),
  };
  await insertFlow(ctx.db, { ...row, mac: macOf(ctx, row, browser) });
  return { url, browser };
};

/**
 * Begins a sign-in of a person by the provider of the tenant that their domain is bound to.
 * @param address a result of parseAddress.
 * @returns undefined where no provider signs in such addresses. @throws too_many_requests; ProviderFault.
 */
export const beginSignIn = async (
  ctx: PeopleContext,
  address: string,
  beginning: Beginning,
): Promise<Begun | undefined> => {
  const found = await findProviderOfAddress(ctx, address);
  return found && begin(ctx, found, beginning, { login_hint: address });
};

/** Begins to prove the member of a session again. @throws too_many_requests; ProviderFault. */
export const beginAgain = async (
  ctx: PeopleContext,
  { tenant_id, email, secret }: { tenant_id: string; email: string; secret: string },
  beginning: Beginning,
): Promise<Begun | undefined> => {
  const provider = await findProviderOf(ctx, tenant_id);
  const session = sessionDigest(ctx.pepper, secret);
  return provider && begin(ctx, { tenant_id, provider }, beginning, { login_hint: email, session });
};

type Refused = { reason: FlowRefusal; code?: string | undefined; member_id?: string | undefined };

/** Logs in the background, so that the time of the response tells nothing. */
const recordFailure = (
  ctx: PeopleContext,
  tenant_id: string,
  { reason, code, member_id }: Refused,
  origin: RequestOrigin,
): void => {
  const { trace_id, otel_trace_id, ip } = origin;
  ctx.log.info({ trace_id, otel_trace_id, ip, tenant_id, reason, code }, 'a single sign-on failed');
  const about =
    member_id === undefined
      ? { entity_type: 'tenant', entity_ids: [tenant_id] }
      : { entity_type: 'tenant_member', entity_ids: [member_id] };
  ctx.refusals.inBackground(() =>
    ctx.refusals.recordRow(
      tenant_id,
      logRow(
        ctx,
        { actor_id: null, actor_type: null, origin },
        { operation: 'use', ...about, message: SIGN_IN_FAILED, outcome: 'refused' },
      ),
    ),
  );
};

type Finishing = {
  /** Tenant of the path that the provider leads to: each has its own, so that no provider ends a flow of another tenant. */
  tenant_id: string;
  callback: URL;
  browser: string | undefined;
  origin: RequestOrigin;
};

type Ended = Exclude<FlowResult, { kind: 'refused' }> | { kind: 'refused'; refused: Refused };

const refused = (reason: FlowRefusal, more: Omit<Refused, 'reason'> = {}): Ended => ({
  kind: 'refused',
  refused: { reason, ...more },
});

/** The flow of a callback, which it ends. Undefined for one that is not this browser's. */
const take = async (
  ctx: PeopleContext,
  { tenant_id, callback, browser }: Finishing,
): Promise<{ row: StoredFlow; secrets: FlowSecrets } | undefined> => {
  const state = callback.searchParams.get('state') ?? '';
  if (!secretPattern.test(state) || browser === undefined || !secretPattern.test(browser)) return undefined;
  const row = await findFlowBeforeCaller(ctx.db, ssoDigest(ctx.pepper, 'state', state));
  if (row?.tenant_id !== tenant_id || !equalDigests(row.mac, macOf(ctx, row, browser))) return undefined;
  // A flow of another browser stays: an attacker who learnt the state cannot end it.
  if (!(await takeFlow(ctx.db, row.digest)) || row.expires_at <= ctx.now()) return undefined;
  return { row, secrets: secretsOf(ctx, state, browser) };
};

const signInWith = async (
  ctx: PeopleContext,
  {
    tenant_id,
    settings,
    claims,
    origin,
  }: { tenant_id: string; settings: Provider['settings']; claims: Claims; origin: RequestOrigin },
  next: string,
): Promise<Ended> => {
  const found = await findMemberOfAccount(ctx, { tenant_id, settings, claims, origin });
  if (found.kind !== 'member') return refused(found.kind, { member_id: found.member_id });
  const { member, subject } = found;
  const state = {
    atMs: ctx.now().getTime(),
    isFactor: settings.trusts_second_factor,
    subject: subject.toString('hex'),
    id_token: claims.id_token,
  };
  return { kind: 'signed_in', secret: await startSsoSession(ctx, member, state, origin), next };
};

/** The member has signed in at the provider again: their session counts as new for sensitive operations. */
const proveAgain = async (
  ctx: PeopleContext,
  {
    row,
    settings,
    claims,
    origin,
  }: {
    row: StoredFlow & { session: Uint8Array };
    settings: Provider['settings'];
    claims: Claims;
    origin: RequestOrigin;
  },
): Promise<Ended> => {
  const { tenant_id, session: digest, created_at, next } = row;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const state = await findState(ctx, keys, { tenant_id, digest });
  const subject = digestOfSubject(ctx, tenant_id, settings.issuer, claims.sub).toString('hex');
  const sinceMs = created_at.getTime() - CLOCK_TOLERANCE_SECONDS * 1000;
  if (state?.subject !== subject || (claims.authTimeMs ?? 0) < sinceMs) return refused('stale');
  const proven = {
    ...state,
    atMs: ctx.now().getTime(),
    isFactor: settings.trusts_second_factor,
    id_token: claims.id_token,
  };
  const sealed = sealState(ctx, keys, { tenant_id, digest }, proven);
  const member = await findSessionMemberBeforeCaller(ctx.db, digest);
  if (member?.tenant_id !== tenant_id) return refused('expired');
  const { member_id, user_id } = member;
  const isProven = await runPrismaTransaction(ctx.db.for({ tenant_id }), ctx.changes, undefined, async (tx) => {
    if (!(await replaceSessionState(tx, digest, sealed))) return false;
    tx.log(
      logRow(
        ctx,
        { actor_id: user_id, actor_type: 'user', origin },
        { operation: 'use', entity_type: 'tenant_member', entity_ids: [member_id], message: SSO_GIVEN_AGAIN },
      ),
    );
    tx.changed({ subject: 'member', id: member_id });
    return true;
  });
  return isProven ? { kind: 'proven', next } : refused('expired');
};

/** @throws too_many_requests; unavailable. */
export const finishFlow = async (ctx: PeopleContext, finishing: Finishing): Promise<FlowResult> => {
  const { tenant_id, callback, origin } = finishing;
  const place = placeOfIp(origin.ip ?? '');
  await countAttempt(ctx, 'sso_from', { place });
  const provider = await findProviderOf(ctx, tenant_id);
  const taken = provider && (await take(ctx, finishing));
  const isAgain = Boolean(taken?.row.session);
  const next = taken?.row.next ?? '/console';
  const end = async (): Promise<Ended> => {
    if (!provider) return refused('off');
    if (!taken) return refused('expired');
    const { row, secrets } = taken;
    const { settings } = provider;
    const claims = await ctx.providers(tenant_id, provider).exchange(callback, secrets, isAgain);
    return row.session
      ? proveAgain(ctx, { row: { ...row, session: row.session }, settings, claims, origin })
      : signInWith(ctx, { tenant_id, settings, claims, origin }, next);
  };
  const ended = await end().catch((error: unknown) => {
    if (error instanceof ProviderFault) return refused(error.kind, { code: error.code });
    throw error;
  });
  if (ended.kind === 'refused') {
    const { reason } = ended.refused;
    if (provider) recordFailure(ctx, tenant_id, ended.refused, origin);
    return { kind: 'refused', reason, isAgain, next };
  }
  // The start, and this.
  for (let each = 0; each < 2; each += 1) await takeBackAttempt(ctx, 'sso_from', { place }).catch(() => undefined);
  return ended;
};

/**
 * Finds the URL at which a browser that has left the vault signs out of the provider too. Undefined if the provider does not
 * offer that, or does not respond: the session in the vault has ended in any case.
 */
export const findSignOutUrl = async (
  ctx: PeopleContext,
  { tenant_id, sso }: Pick<Session, 'tenant_id' | 'sso'>,
  redirect_uri: string,
): Promise<string | undefined> => {
  const provider = sso && (await findProviderOf(ctx, tenant_id));
  if (!provider) return undefined;
  const asked = { redirect_uri, id_token: sso.id_token };
  return ctx
    .providers(tenant_id, provider)
    .endSessionUrl(asked)
    .catch((error: unknown) => {
      if (!(error instanceof ProviderFault)) throw error;
      ctx.log.info({ tenant_id, code: error.code }, 'the provider of a tenant did not say where to sign out');
      return undefined;
    });
};
