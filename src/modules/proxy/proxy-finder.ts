// Finds a stored proxy by its key, before the caller is known, and caches it unsealed for a short time.
import type { ClientCertificate } from '../../platform/crypto/client-certificate.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { Configuration } from '../reactors/reactors.ts';
import { openText, type SealedPlace, type Sealing, sealText } from '../../platform/keys/sealed-text.ts';
import { type AmountRule, pinOfAmount } from './amount-rule.ts';
import type { CodeRule } from './code-rule.ts';
import { type EchoMode, echoModeOf } from '../access/echo-mode.ts';
import type { ReactorsContext } from '../reactors/context.ts';
import { type DigestKey, memoryDigest, pinDigest, proxyKeyDigest, randomBase62 } from '../../platform/crypto/digest.ts';
import { sortedJson } from '../../platform/crypto/seal.ts';
import type { BoundPlace, FindPin, Use } from '../access/bounds.ts';
import { hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { createCache } from '../../platform/base/cache.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { isRunnableStale } from '../reactors/reactor-finder.ts';
import { findProxyBeforeCaller, findUsableProxy } from './rows.ts';
import { canonicalHost } from '../../platform/base/host-names.ts';
import { maskOfCode } from './mask-transform.ts';

// The sealed part of a stored proxy: destination, transforms, configuration and client certificate.
// Associated data binds it to its proxy.

/** A replaced key, which may live for some time. */
type PreviousKey = {
  /** The digest by which the proxy is found, in base64. */
  digest: string;
  /** ISO 8601. */
  ends_at: string;
};

export type ProxyRoute = {
  key: string;
  /** Key before the last rotation. Its time may be over. */
  previous_key?: PreviousKey | undefined;
  destination_url: string;
  /** Source code. */
  request_transform?: string | undefined;
  response_transform?: string | undefined;
  /** Null for none. */
  configuration: Configuration | null;
  client_certificate?: ClientCertificate | undefined;
  expressions: 'on' | 'off';
  /** Absent for the usual time. */
  timeout_seconds?: number | undefined;
  /** Absent: the setting of the tenant. */
  echo_guard?: EchoMode | undefined;
  /** Absent: security codes live to the end of their time. */
  cvc?: CodeRule | undefined;
  /** Absent: values with an allowance do not pass. */
  amount?: AmountRule | undefined;
  /** The header by which the destination recognises a repeated request. */
  idempotency_header?: string | undefined;
};

/** When the replaced key ends; undefined if there is none, or if it has ended. */
export const findPreviousEnd = ({ previous_key }: ProxyRoute, now: Date): Date | undefined => {
  const ends_at = previous_key && new Date(previous_key.ends_at);
  return ends_at && ends_at > now ? ends_at : undefined;
};

const placeOf = (tenant_id: string, id: string): SealedPlace => ({ tenant_id, record: 'proxy', id, field: 'route' });

export const sealRoute = (ctx: Sealing, tenant_id: string, keys: TenantKeys, id: string, route: ProxyRoute): Buffer =>
  sealText(ctx, keys, placeOf(tenant_id, id), JSON.stringify(route));

/** @throws internal, after an alarm, for a route that cannot be opened. */
export const openRoute = (
  ctx: Sealing,
  tenant_id: string,
  keys: TenantKeys,
  id: string,
  sealed: Uint8Array,
): ProxyRoute => JSON.parse(openText(ctx, keys, placeOf(tenant_id, id), sealed)) as ProxyRoute;

// Generates proxy keys and computes the keyed digest that finds a proxy.
// A key is random, not derived from an id. It is sealed in the proxy, for callers who may read proxies.

/** 32 base62 characters have 190 bits. At least 128 are needed against guessing. */
const PROXY_KEY_LENGTH = 32;

const shape = new RegExp(`^[0-9A-Za-z]{${PROXY_KEY_LENGTH}}$`);

/** The digest that finds a key; undefined for a text that has not the form of a key. */
export const digestOfProxyKey = ({ pepper }: Pick<ReactorsContext, 'pepper'>, key: string): Buffer | undefined =>
  shape.test(key) ? proxyKeyDigest(pepper, key) : undefined;

/** Generates a key and the digest to store. */
export const newProxyKey = (ctx: Pick<ReactorsContext, 'pepper' | 'randomBytes'>): { key: string; digest: Buffer } => {
  const key = randomBase62(PROXY_KEY_LENGTH, ctx.randomBytes);
  return { key, digest: proxyKeyDigest(ctx.pepper, key) };
};

/** How long a process may use a proxy that another process changed, if the notice of the change was lost. */
const USABLE_MS = 1_000;
/**
 * Cached proxies per process, each with up to 250,000 characters of code, configuration and certificate. Further ones are
 * read with each request.
 */
const USABLES_MAX = 100;

export type ProxyForUse = {
  tenant_id: string;
  id: string;
  /** Incremented by every change. */
  version: number;
  destination_url: string;
  require_auth: boolean;
  /** Whether braces in requests are expressions. */
  hasExpressions: boolean;
  /** Undefined for the usual time. */
  timeout_seconds: number | undefined;
  /** Undefined where the proxy says nothing: then the setting of the tenant holds. */
  echo_guard: EchoMode | undefined;
  tenant_echo_guard: EchoMode | undefined;
  /** Undefined: security codes live to the end of their time. */
  cvc: CodeRule | undefined;
  /** Undefined: values with an allowance do not pass. */
  amount: AmountRule | undefined;
  /** The header by which the destination recognises a repeated request. Undefined where it does not. */
  idempotency_header: string | undefined;
  /** Source code. */
  request_transform: string | undefined;
  response_transform: string | undefined;
  configuration: Configuration;
  /** Undefined for none, and for a deleted application. */
  application_id: string | undefined;
  allowed_hosts: string[] | undefined;
  client_certificate: ClientCertificate | undefined;
  /** When the key that found it ends. Undefined for the current key. */
  key_ends_at: Date | undefined;
};

/** A stored proxy, as far as a bound pins it. */
export type PinnedProxy = Pick<
  ProxyForUse,
  | 'id'
  | 'destination_url'
  | 'request_transform'
  | 'response_transform'
  | 'configuration'
  | 'application_id'
  | 'idempotency_header'
  | 'amount'
  | 'cvc'
>;

/** @param row of the proxy whose route was opened. */
export const toPinned = (row: { id: string; application_id: string | null }, route: ProxyRoute): PinnedProxy => ({
  id: row.id,
  destination_url: route.destination_url,
  request_transform: route.request_transform,
  response_transform: route.response_transform,
  configuration: route.configuration ?? {},
  application_id: row.application_id ?? undefined,
  idempotency_header: route.idempotency_header,
  amount: route.amount,
  cvc: route.cvc,
});

export type ProxyFinder = {
  /** The proxy of a key; undefined for an unknown key. Writes no log row: the use of the proxy is logged. */
  findProxyBeforeCaller(key: string): Promise<ProxyForUse | undefined>;
};

type LoadContext = Pick<Platform, 'db' | 'keyring' | 'pepper' | 'now'> & Sealing;

export const createProxyFinder = (ctx: LoadContext & Pick<Platform, 'changes' | 'monotonicMs'>): ProxyFinder => {
  const cache = createCache<ProxyForUse>({
    max: USABLES_MAX,
    ttlMs: USABLE_MS,
    monotonicMs: ctx.monotonicMs,
    changes: ctx.changes,
    isStale: isRunnableStale,
  });
  return {
    async findProxyBeforeCaller(key) {
      const proxy = await cache.find(memoryDigest(key), () => loadProxy(ctx, key));
      // A replaced key ends in time, also where the proxy is cached.
      return proxy?.key_ends_at && proxy.key_ends_at <= ctx.now() ? undefined : proxy;
    },
  };
};

const loadProxy = async (ctx: LoadContext, key: string): Promise<ProxyForUse | undefined> => {
  const digest = digestOfProxyKey(ctx, key);
  const row = digest && (await findProxyBeforeCaller(ctx.db, digest));
  if (!row) return undefined;
  const { tenant_id, id, version, require_auth } = row;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const route = openRoute(ctx, tenant_id, keys, id, row.sealed);
  const isPrevious = route.previous_key?.digest === digest.toString('base64');
  const key_ends_at = isPrevious ? findPreviousEnd(route, ctx.now()) : undefined;
  if (isPrevious && key_ends_at === undefined) return undefined;
  if (route.key !== key && !isPrevious) {
    ctx.log.error({ alarm: 'seal_broken', tenant_id, record: 'proxy', record_id: id }, 'a key leads to another proxy');
    return undefined;
  }
  return {
    tenant_id,
    ...toPinned({ id, application_id: row.application_id }, route),
    version,
    require_auth,
    hasExpressions: route.expressions !== 'off',
    timeout_seconds: route.timeout_seconds,
    echo_guard: route.echo_guard,
    tenant_echo_guard: echoModeOf(row.settings['echo_guard']),
    allowed_hosts: hostsOf(row.allowed_hosts),
    client_certificate: route.client_certificate,
    key_ends_at,
  };
};

/** The current key of a stored proxy; undefined where there is none. @throws internal; unavailable. */
export const findKeyOfProxy = async (ctx: LoadContext, tenant_id: string, id: string): Promise<string | undefined> => {
  const row = await findUsableProxy(ctx.db.for({ tenant_id }), id);
  return row && openRoute(ctx, tenant_id, await ctx.keyring.tenantKeys(tenant_id), id, row.sealed).key;
};

/**
 * What a bound pins of a proxy: its destination host and its transforms, what these run with, which may say where they send
 * values, and the header by which the destination knows a repetition, which costs no use. A proxy without code uses no configuration
 * and no application.
 */
export const pinOfProxy = (key: DigestKey, proxy: Omit<PinnedProxy, 'amount' | 'cvc'>): string => {
  const { id, destination_url, request_transform, response_transform, configuration, application_id = '' } = proxy;
  const isCoded = request_transform !== undefined || response_transform !== undefined;
  const code = [request_transform ?? '', response_transform ?? '', sortedJson(configuration), application_id];
  const repeated = proxy.idempotency_header === undefined ? [] : ['idempotency_header', proxy.idempotency_header];
  return pinDigest(key, 'proxy', id, [new URL(destination_url).host, ...(isCoded ? code : []), ...repeated]);
};

export const findProxyPin =
  (ctx: LoadContext): FindPin =>
  async (tenant_id, id) => {
    const row = await findUsableProxy(ctx.db.for({ tenant_id }), id);
    if (!row) return undefined;
    const proxy = toPinned(row, openRoute(ctx, tenant_id, await ctx.keyring.tenantKeys(tenant_id), id, row.sealed));
    return { pin: (key) => pinOfProxy(key, proxy), pinOfAmount: (key) => pinOfAmount(key, proxy) };
  };

// What a request of the proxy does with values, for the bounds of tokens and rules.

/** The built-in mask gets the values too, and sends them nowhere. @param placesOf the places of a token in the request. */
export const useOf = (
  { hostname }: URL,
  proxy: PinnedProxy | undefined,
  placesOf: (token_id: string) => readonly BoundPlace[],
): Use => ({
  kind: 'proxy',
  host: canonicalHost(hostname),
  proxy: proxy && {
    id: proxy.id,
    pin: (key) => pinOfProxy(key, proxy),
    pinOfAmount: (key) => pinOfAmount(key, proxy),
    hasAmount: proxy.amount !== undefined,
  },
  hasCode: [proxy?.request_transform, proxy?.response_transform].some(
    (code) => code !== undefined && maskOfCode(code) === undefined,
  ),
  placesOf,
});
