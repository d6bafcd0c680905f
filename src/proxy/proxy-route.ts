// What is sealed of a stored proxy: where a request goes, and what happens to it on its way. Opens under the proxy that it is
// of, and nowhere else.
import type { ClientCertificate } from '../crypto/client-certificate.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { Configuration } from '../runtime/reactors.ts';
import { openText, type SealedPlace, sealText, type Sealing } from '../runtime/sealed.ts';

export type ProxyRoute = {
  key: string;
  destination_url: string;
  /** Code. */
  request_transform?: string | undefined;
  response_transform?: string | undefined;
  /** Empty where there is none: processes of an older version expect an object. */
  configuration: Configuration;
  /** Whether one was given. Older routes do not say it; an empty one then counts as none. */
  has_configuration?: boolean | undefined;
  client_certificate?: ClientCertificate | undefined;
};

const placeOf = (tenant_id: string, id: string): SealedPlace => ({ tenant_id, record: 'proxy', id, field: 'route' });

export const sealRoute = (ctx: Sealing, tenant_id: string, keys: TenantKeys, id: string, route: ProxyRoute): Buffer =>
  sealText(ctx, keys, placeOf(tenant_id, id), JSON.stringify(route));

/** @throws internal, after an alarm, for a route that does not open. */
export const openRoute = (
  ctx: Sealing,
  tenant_id: string,
  keys: TenantKeys,
  id: string,
  sealed: Uint8Array,
): ProxyRoute => JSON.parse(openText(ctx, keys, placeOf(tenant_id, id), sealed)) as ProxyRoute;
