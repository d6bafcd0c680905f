// The sealed part of a webhook: its URL and its secrets. Signs messages in the form of Standard Webhooks.
import { webhookSignature } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import type { RandomBytes } from '../../platform/crypto/random.ts';
import { openText, type SealedPlace, type Sealing, sealText } from '../../platform/keys/sealed-text.ts';

/** https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: 24 to 64 bytes. */
const SECRET_BYTES = 32;
const PREFIX = 'whsec_';

/** How long a replaced secret signs beside the new one: receivers change theirs meanwhile. */
export const PREVIOUS_SECRET_MS = 24 * 3_600_000;

export type Destination = {
  url: string;
  /** `whsec_` and the bytes in base64. */
  secret: string;
  /** Secret before the last rotation. Its time may be over. */
  previous?: { secret: string; /** ISO 8601. */ ends_at: string } | undefined;
};

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'webhook',
  id,
  field: 'destination',
});

export const sealDestination = (
  ctx: Sealing,
  tenant_id: string,
  keys: TenantKeys,
  id: string,
  destination: Destination,
): Buffer => sealText(ctx, keys, placeOf(tenant_id, id), JSON.stringify(destination));

/** @throws internal, after an alarm, for one that cannot be opened. */
export const openDestination = (
  ctx: Sealing,
  tenant_id: string,
  keys: TenantKeys,
  id: string,
  sealed: Uint8Array,
): Destination => JSON.parse(openText(ctx, keys, placeOf(tenant_id, id), sealed)) as Destination;

export const newSecret = (randomBytes: RandomBytes): string =>
  `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`;

/** When the replaced secret ends; undefined if there is none, or if it has ended. */
export const findPreviousEnd = ({ previous }: Destination, now: Date): Date | undefined => {
  const ends_at = previous && new Date(previous.ends_at);
  return ends_at && ends_at > now ? ends_at : undefined;
};

/** The headers of a message. The time is that of the attempt, so that a receiver may refuse old messages. */
export const signedHeaders = (destination: Destination, id: string, body: string, now: Date): [string, string][] => {
  const { secret, previous } = destination;
  const timestamp = Math.floor(now.getTime() / 1000);
  const secrets = [secret, ...(previous && findPreviousEnd(destination, now) ? [previous.secret] : [])];
  const signatures = secrets.map((each) => {
    const key = Buffer.from(each.slice(PREFIX.length), 'base64');
    return `v1,${webhookSignature(key, id, timestamp, body)}`;
  });
  return [
    ['webhook-id', id],
    ['webhook-timestamp', String(timestamp)],
    ['webhook-signature', signatures.join(' ')],
  ];
};
