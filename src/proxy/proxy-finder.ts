// A proxy as it is used, found by its key before anybody knows who calls: destination, code and configuration in the clear,
// remembered for a moment, so that the hot path asks the database for nothing else.
import { digestOfProxyKey } from '../access/proxy-keys.ts';
import { hostsOf } from '../access/allowed-hosts.ts';
import { createBriefMemory } from '../brief-memory.ts';
import type { Context } from '../context.ts';
import type { ClientCertificate } from '../crypto/client-certificate.ts';
import { memoryDigest } from '../crypto/digest.ts';
import type { Sealing } from '../runtime/sealed.ts';
import type { Configuration } from '../runtime/reactors.ts';
import { openRoute } from './proxy-route.ts';

/** How long a process may use what a proxy was before it was changed by another process, and that one's notice got lost. */
const USABLE_MS = 1_000;
/**
 * Proxies remembered per process, each with up to a quarter of a million characters of code, configuration and
 * certificate. One beyond costs a look each time, and no more.
 */
const USABLES_MAX = 100;

export type ProxyForUse = {
  tenant_id: string;
  id: string;
  /** Another one whenever the proxy has changed. */
  version: number;
  destination_url: string;
  require_auth: boolean;
  /** Code. */
  request_transform: string | undefined;
  response_transform: string | undefined;
  configuration: Configuration;
  /** Undefined for none, and where it is gone. */
  application_id: string | undefined;
  allowed_hosts: string[] | undefined;
  client_certificate: ClientCertificate | undefined;
};

/** Proxies as they are used, remembered for a moment: the hot path asks the database for nothing else. */
export type ProxyFinder = {
  /** The proxy of a key; undefined for a key that is none, or nobody's. Logs nothing: what is done with it is. */
  findProxyBeforeCaller(key: string): Promise<ProxyForUse | undefined>;
  /** Something that the proxies of a tenant, or of an application, are made of has changed. */
  forget(match: { tenant_id?: string; application_id?: string } | 'all'): void;
};

type Opening = Pick<Context, 'db' | 'keyring' | 'pepper'> & Sealing;

export const createProxyFinder = (ctx: Opening & { monotonicMs: () => number }): ProxyFinder => {
  const memory = createBriefMemory<ProxyForUse>({ max: USABLES_MAX, ttlMs: USABLE_MS, monotonicMs: ctx.monotonicMs });
  return {
    findProxyBeforeCaller: (key) => memory.find(memoryDigest(key), () => loadProxy(ctx, key)),
    forget: (match) =>
      memory.forget(
        ({ tenant_id, application_id }) =>
          match === 'all' ||
          tenant_id === match.tenant_id ||
          (application_id !== undefined && application_id === match.application_id),
      ),
  };
};

const loadProxy = async (ctx: Opening, key: string): Promise<ProxyForUse | undefined> => {
  const digest = digestOfProxyKey(ctx, key);
  const row = digest && (await ctx.db.findProxyBeforeCaller(digest));
  if (!row) return undefined;
  const { tenant_id, id, version, require_auth } = row;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const route = openRoute(ctx, tenant_id, keys, id, row.sealed);
  if (route.key !== key) {
    ctx.log.error({ alarm: 'seal_broken', tenant_id, record: 'proxy', record_id: id }, 'a key leads to another proxy');
    return undefined;
  }
  return {
    tenant_id,
    id,
    version,
    destination_url: route.destination_url,
    require_auth,
    request_transform: route.request_transform,
    response_transform: route.response_transform,
    configuration: route.configuration,
    application_id: row.application_id ?? undefined,
    allowed_hosts: hostsOf(row.allowed_hosts),
    client_certificate: route.client_certificate,
  };
};

/**
 * Does a deed and forgets the tenant's proxies in this process before anybody hears of it; others hear it from the database.
 * Whatever came of it: a deed that failed on its way back may have been done.
 */
export const forgetting = async <T>(
  ctx: Pick<Context, 'proxies'>,
  tenant_id: string,
  deed: () => Promise<T>,
): Promise<T> => {
  try {
    return await deed();
  } finally {
    ctx.proxies.forget({ tenant_id });
  }
};
