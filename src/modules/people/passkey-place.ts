// The host and the origin that passkeys of the console belong to, from PUBLIC_URL and CONSOLE_HOST.
import { isIP } from 'node:net';
import { type Config, consoleUrlOf } from '../../platform/config/config.ts';
import type { PasskeyPlace } from '../../platform/crypto/passkey.ts';

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
