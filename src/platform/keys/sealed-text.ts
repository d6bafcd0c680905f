// Seals and opens texts of a tenant, such as the code of a formula or the configuration of a reactor.
import type { Platform } from '../services/platform.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from '../crypto/seal.ts';
import { internal } from '../base/errors.ts';

/** The services that sealing and opening need. */
export type Sealing = Pick<Platform, 'environment' | 'randomBytes' | 'log'>;

/** The place of a text. The text opens only there. */
export type SealedPlace = Omit<Binding, 'environment'>;

const bindingOf = ({ environment }: Sealing, place: SealedPlace): Binding => ({
  environment,
  ...place,
});

export const sealText = (ctx: Sealing, keys: TenantKeys, place: SealedPlace, text: string): Buffer =>
  seal(keys.data, bindingOf(ctx, place), text, ctx.randomBytes);

const openOrThrow = (ctx: Sealing, keys: TenantKeys, place: SealedPlace, sealed: Uint8Array): string => {
  const key = keys.find(keyIdOf(sealed));
  if (!key) throw new SealBroken();
  return open(key, bindingOf(ctx, place), sealed).toString('utf8');
};

/** Opens a text of a row in a queue. @returns undefined if it does not open: the caller reports the row, and ends it. */
export const openIntact = (
  ctx: Sealing,
  keys: TenantKeys,
  place: SealedPlace,
  sealed: Uint8Array,
): string | undefined => {
  try {
    return openOrThrow(ctx, keys, place, sealed);
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    return undefined;
  }
};

/** Opens a text. @throws internal after an alarm if it does not open: it was changed or moved, or its key is missing. */
export const openText = (ctx: Sealing, keys: TenantKeys, place: SealedPlace, sealed: Uint8Array): string => {
  try {
    return openOrThrow(ctx, keys, place, sealed);
  } catch (error) {
    const { tenant_id, record, id } = place;
    ctx.log.error({ alarm: 'seal_broken', tenant_id, record, record_id: id }, 'a value of a record does not open');
    throw internal(error);
  }
};
