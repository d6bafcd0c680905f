// The sealed part of a stored proxy: destination, transforms, configuration and client certificate.
// Associated data binds it to its proxy.
import type { ClientCertificate } from '../../platform/crypto/client-certificate.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { Configuration } from '../reactors/reactors.ts';
import { openText, type SealedPlace, sealText, type Sealing } from '../../platform/keys/sealed-text.ts';

/** A replaced key, which may live for some time. */
export type PreviousKey = {
  /** The digest by which the proxy is found, in base64. */
  digest: string;
  /** ISO 8601. */
  ends_at: string;
};

export type ProxyRoute = {
  key: string;
  /** Of the last rotation. Its time may be over. */
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
