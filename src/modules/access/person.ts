// Seals and opens the address and names of a member.
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { openText, sealText, type SealedPlace, type Sealing } from '../../platform/keys/sealed-text.ts';

/** Address and names as the user entered them for this tenant; other tenants may have other names of the same user. */
export type Person = {
  email: string;
  first_name: string;
  /** Empty for none. */
  last_name: string;
};

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'tenant_member',
  id,
  field: 'person',
});

export const sealPerson = (
  ctx: Sealing,
  keys: TenantKeys,
  tenant_id: string,
  member_id: string,
  { email, first_name, last_name }: Person,
): Buffer => sealText(ctx, keys, placeOf(tenant_id, member_id), JSON.stringify({ email, first_name, last_name }));

export const openPerson = (
  ctx: Sealing,
  keys: TenantKeys,
  tenant_id: string,
  member_id: string,
  sealed: Uint8Array,
): Person => JSON.parse(openText(ctx, keys, placeOf(tenant_id, member_id), sealed)) as Person;

/** First and last name; empty if there is neither. */
export const fullName = ({ first_name, last_name }: { first_name?: string; last_name?: string }): string =>
  [first_name, last_name].filter(Boolean).join(' ');
