// What is kept of a session that began by single sign-on: sealed, and bound to the session.
import type { TenantKeys } from '../../../platform/crypto/keyring.ts';
import { openText, sealText, type SealedPlace, type Sealing } from '../../../platform/keys/sealed-text.ts';
import type { Platform } from '../../../platform/services/platform.ts';
import { findSessionState } from '../rows/sso.ts';

/**
 * Secrets of such sessions begin with it. So the secret itself tells, and no writer of the database can make another kind of session of
 * one.
 */
export const SSO_SECRET_PREFIX = 'sso.';

export type SsoState = {
  /** When the member signed in at the provider last, in milliseconds. */
  atMs: number;
  /** Whether the tenant trusted the provider with the second factor then. */
  isFactor: boolean;
  /** The account at the provider: see `digestOfSubject`. */
  subject: string;
  /** Names the session to the provider at sign-out. Left out where it is too long. */
  id_token?: string | undefined;
};

/** An ID token with a list of groups may have any size. One beyond this is not kept: sign-out names the client alone then. */
const ID_TOKEN_LENGTH_MAX = 8_000;

const placeOf = (tenant_id: string, digest: Uint8Array): SealedPlace => ({
  tenant_id,
  record: 'sso_session',
  id: Buffer.from(digest).toString('hex'),
  field: 'state',
});

export const sealState = (
  ctx: Sealing,
  keys: TenantKeys,
  { tenant_id, digest }: { tenant_id: string; digest: Uint8Array },
  { id_token, ...state }: SsoState,
): Buffer => {
  const kept = id_token !== undefined && id_token.length <= ID_TOKEN_LENGTH_MAX ? { ...state, id_token } : state;
  return sealText(ctx, keys, placeOf(tenant_id, digest), JSON.stringify(kept));
};

/** @returns undefined where the session has ended, and where the row was changed or put back. */
export const findState = async (
  ctx: Sealing & Pick<Platform, 'db'>,
  keys: TenantKeys,
  { tenant_id, digest }: { tenant_id: string; digest: Uint8Array },
): Promise<SsoState | undefined> => {
  const sealed = await findSessionState(ctx.db.for({ tenant_id }), digest);
  return sealed && (JSON.parse(openText(ctx, keys, placeOf(tenant_id, digest), sealed)) as SsoState);
};
