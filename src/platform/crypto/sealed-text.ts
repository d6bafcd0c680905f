// Texts of a tenant's own that are sealed at rest: code of formulas and configurations of reactors. Knows the place of a
// text and not what it says.
import type { Platform } from '../platform.ts';
import type { TenantKeys } from './keyring.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from './seal.ts';
import { internal } from '../errors.ts';

/** What sealing and opening take of the context. */
export type Sealing = Pick<Platform, 'environment' | 'randomBytes' | 'log'>;

/** Where a text is kept: it opens nowhere else. */
export type SealedPlace = Omit<Binding, 'environment'>;

const bindingOf = ({ environment }: Sealing, place: SealedPlace): Binding => ({
  environment,
  ...place,
});

export const sealText = (ctx: Sealing, keys: TenantKeys, place: SealedPlace, text: string): Buffer =>
  seal(keys.data, bindingOf(ctx, place), text, ctx.randomBytes);

/** @throws internal, after an alarm, for a value that does not open: it was changed, moved or lost its key. */
export const openText = (ctx: Sealing, keys: TenantKeys, place: SealedPlace, sealed: Uint8Array): string => {
  try {
    const key = keys.find(keyIdOf(sealed));
    if (!key) throw new SealBroken();
    return open(key, bindingOf(ctx, place), sealed).toString('utf8');
  } catch (error) {
    const { tenant_id, record, id } = place;
    ctx.log.error({ alarm: 'seal_broken', tenant_id, record, record_id: id }, 'a value of a record does not open');
    throw internal(error);
  }
};
