// What the vault keeps of a passkey, sealed and bound to its user and its devices; and the host that passkeys belong to.
import { isIP } from 'node:net';
import { type Config, consoleUrlOf } from '../../platform/config/config.ts';
import type { PasskeyCredential, PasskeyPlace } from '../../platform/crypto/passkey.ts';
import { openUserSecret, sealUserSecret } from '../../platform/keys/user-secrets.ts';
import type { PeopleContext } from './context.ts';
import type { StoredPasskey } from './rows/devices.ts';

export type Passkey = PasskeyCredential & {
  id: string;
  name: string;
  /** The host that it works for. */
  rp_id: string;
};

export type ListedPasskey = Passkey & Pick<StoredPasskey, 'created_at' | 'used_at'>;

type Sealing = Pick<PeopleContext, 'environment' | 'log' | 'pepper' | 'randomBytes'>;

/** User of the passkeys, and the time of the user's devices, `second_factor_since`. */
type DevicesOf = { user_id: string; since: Date };

type Sealed = Omit<Passkey, 'id'> & { since: number };

export const sealPasskey = (ctx: Sealing, { user_id, since }: DevicesOf, passkey: Passkey): Buffer => {
  const { id, name, rp_id, credential_id, public_key, counter, transports } = passkey;
  const content: Sealed = {
    name,
    rp_id,
    credential_id,
    public_key,
    counter,
    transports,
    since: since.getTime(),
  };
  return sealUserSecret(ctx, user_id, Buffer.from(JSON.stringify(content)), `passkey ${id}`);
};

/** Undefined after an alarm: the row was changed, or belongs to another user. The others still work. */
const openRow = (ctx: Sealing, user_id: string, { id, sealed }: StoredPasskey): Sealed | undefined => {
  try {
    return JSON.parse(openUserSecret(ctx, user_id, sealed, `passkey ${id}`).toString('utf8')) as Sealed;
  } catch {
    return undefined;
  }
};

/**
 * The passkeys that count. One of another time was removed with its devices, and a writer of the database has put the row back.
 */
export const openPasskeys = (
  ctx: Sealing,
  { user_id, since }: { user_id: string; since: Date | null },
  rows: readonly StoredPasskey[],
): ListedPasskey[] =>
  rows.flatMap((row) => {
    const opened = openRow(ctx, user_id, row);
    if (opened === undefined || opened.since !== since?.getTime()) return [];
    const { since: _, ...kept } = opened;
    return [{ ...kept, id: row.id, created_at: row.created_at, used_at: row.used_at }];
  });

// The host and the origin that passkeys of the console belong to, from PUBLIC_URL and CONSOLE_HOST.

const isLocal = (hostname: string): boolean => hostname === 'localhost' || hostname.endsWith('.localhost');

/**
 * Never from the Host header in production: a false page that passes requests on could name itself, and have passkeys made for its
 * own host. A development server without PUBLIC_URL takes `localhost` with any port.
 * @param host as the browser reached the server.
 * @returns undefined where browsers have no passkeys: by http from elsewhere, at an IP address, and without PUBLIC_URL.
 */
export const passkeyPlaceOf = (
  config: Pick<Config, 'mode' | 'publicUrl' | 'consoleHost'>,
  host: string,
): PasskeyPlace | undefined => {
  const reached = config.mode === 'development' ? `http://${host}` : undefined;
  const base = config.publicUrl ?? reached;
  if (base === undefined || !URL.canParse(base)) return undefined;
  const { origin, hostname, protocol } = new URL(consoleUrlOf(config, base));
  if (protocol === 'http:' && !isLocal(hostname)) return undefined;
  return isIP(hostname.replaceAll(/[[\]]/g, '')) === 0 ? { origin, rp_id: hostname } : undefined;
};
