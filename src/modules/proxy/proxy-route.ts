// The sealed part of a stored proxy: destination, transforms, configuration and client certificate.
// Associated data binds it to its proxy.
import type { ClientCertificate } from '../../platform/crypto/client-certificate.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { Configuration } from '../reactors/reactors.ts';
import { openText, type SealedPlace, sealText, type Sealing } from '../../platform/crypto/sealed-text.ts';

export type ProxyRoute = {
  key: string;
  destination_url: string;
  /** Source code. */
  request_transform?: string | undefined;
  response_transform?: string | undefined;
  /** Empty for none, because processes of an older version expect an object. */
  configuration: Configuration;
  /** Whether a configuration was set. Absent in older routes, where an empty configuration counts as none. */
  has_configuration?: boolean | undefined;
  client_certificate?: ClientCertificate | undefined;
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
