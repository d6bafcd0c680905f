// Seals secrets of users, who belong to no tenant, under a key that is derived from the pepper.
import type { Platform } from '../services/platform.ts';
import { internal } from '../base/errors.ts';
import { type DigestKey, userKeyBytes } from '../crypto/digest.ts';
import { type Binding, createSealingKey, open, seal, type SealingKey } from '../crypto/seal.ts';

/** In the header of each value. The pepper never changes, so there is one key. */
const KEY_ID = '00000000-0000-8000-8000-000000000001';

const keyOf = (pepper: DigestKey): SealingKey => createSealingKey(KEY_ID, userKeyBytes(pepper));

/** Name of the secret: that of the authenticator app, or that of a passkey by its id. */
type Field = 'second_factor' | `passkey ${string}`;

const placeOf = (environment: string, id: string, field: Field): Binding => ({
  environment,
  record: 'user',
  id,
  field,
});

type Sealing = Pick<Platform, 'environment' | 'log' | 'pepper' | 'randomBytes'>;

/** @param id of the user. */
export const sealUserSecret = (
  { environment, pepper, randomBytes }: Sealing,
  id: string,
  secret: Uint8Array,
  field: Field = 'second_factor',
): Buffer => seal(keyOf(pepper), placeOf(environment, id, field), secret, randomBytes);

/** @throws internal after an alarm where it does not open: it was changed, or belongs to another user. */
export const openUserSecret = (
  ctx: Sealing,
  id: string,
  sealed: Uint8Array,
  field: Field = 'second_factor',
): Buffer => {
  try {
    return open(keyOf(ctx.pepper), placeOf(ctx.environment, id, field), sealed);
  } catch (error) {
    ctx.log.error({ alarm: 'seal_broken', record: 'user', record_id: id }, 'the second factor of a user does not open');
    throw internal(error);
  }
};
