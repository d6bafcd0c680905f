// The devices of a user, an authenticator app and passkeys: reads and removes them.
import { PASSKEY_REMOVED, SECOND_FACTOR_REMOVED } from '../../platform/db/audit-record.ts';
import { describeTotp } from '../../platform/crypto/totp.ts';
import { openUserSecret } from '../../platform/keys/user-secrets.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import { notFound } from '../../platform/base/errors.ts';
import { type ListedPasskey, openPasskeys, type Passkey, sealPasskey } from './passkey-records.ts';
import {
  deletePasskeysExcept,
  findSecondFactor,
  listPasskeyRows,
  updatePasskey,
  updateSecondFactor,
} from './rows/devices.ts';
import { deleteSessionsOfUser } from './rows/sessions.ts';
import { type Changing, changingUser, hasApp, type HeldUser, userOf, type Visitor } from './second-factor.ts';
import type { Session } from './sessions.ts';

export type Devices = {
  hasApp: boolean;
  /** The secret that an app is being given; undefined where none is. */
  offer: { uri: string; text: string } | undefined;
  passkeys: ListedPasskey[];
  recoveryCodesLeft: number;
};

/** What the user of a session has as second factor. */
export const readDevices = async (ctx: Changing, { user_id, email, mayAddDevices }: Session): Promise<Devices> => {
  const [factor, rows] = await Promise.all([findSecondFactor(ctx.db, user_id), listPasskeyRows(ctx.db, user_id)]);
  if (!factor) throw notFound('member');
  const isOffered = mayAddDevices && factor.second_factor !== null && factor.second_factor_step === null;
  return {
    hasApp: hasApp(factor),
    offer:
      isOffered && factor.second_factor
        ? describeTotp(openUserSecret(ctx, user_id, factor.second_factor), email)
        : undefined,
    passkeys: openPasskeys(ctx, { user_id, since: factor.second_factor_since }, rows),
    recoveryCodesLeft: factor.recovery_digests.length,
  };
};

/** Columns of a user without an authenticator app. */
export const NO_APP = { second_factor: null, second_factor_step: null };
const NO_FACTOR = { ...NO_APP, second_factor_since: null, recovery_digests: [] };

/**
 * Removes all devices but these. They go on under a new time, so that the row of a removed passkey does not count if it is put
 * back. Without any device, the recovery codes end too.
 */
const keepDevices = async (
  ctx: Changing,
  tx: PrismaTransaction,
  user_id: string,
  kept: { hasApp: boolean; passkeys: readonly Passkey[] },
): Promise<void> => {
  const ids = kept.passkeys.map(({ id }) => id);
  await deletePasskeysExcept(tx, user_id, ids);
  if (!kept.hasApp && ids.length === 0) return updateSecondFactor(tx, user_id, NO_FACTOR);
  const since = ctx.now();
  await updateSecondFactor(tx, user_id, { second_factor_since: since, ...(!kept.hasApp && NO_APP) });
  for (const passkey of kept.passkeys)
    await updatePasskey(tx, passkey.id, { sealed: sealPasskey(ctx, { user_id, since }, passkey) });
};

/** Removes the app of a session's user, such as to set up another one. */
export const removeDevice = async (ctx: Changing, visitor: Visitor): Promise<void> => {
  await changingUser(ctx, userOf(visitor), async (tx, { factor, passkeys, log }) => {
    if (!hasApp(factor)) return;
    await keepDevices(ctx, tx, visitor.session.user_id, { hasApp: false, passkeys });
    await log(SECOND_FACTOR_REMOVED);
  });
};

/** Removes a passkey of a session's user. An unknown id changes nothing. */
export const removePasskey = async (ctx: Changing, visitor: Visitor, id: string): Promise<void> => {
  await changingUser(ctx, userOf(visitor), async (tx, { factor, passkeys, log }) => {
    const left = passkeys.filter((passkey) => passkey.id !== id);
    if (left.length === passkeys.length) return;
    await keepDevices(ctx, tx, visitor.session.user_id, { hasApp: hasApp(factor), passkeys: left });
    await log(PASSKEY_REMOVED);
  });
};

/** Removes lost devices, and ends all sessions of the user. @returns whether there was one. */
export const forgetDevice = async (
  ctx: Changing,
  tx: PrismaTransaction,
  user_id: string,
  { factor, log }: HeldUser,
): Promise<boolean> => {
  if (!factor.second_factor_since) return false;
  await keepDevices(ctx, tx, user_id, { hasApp: false, passkeys: [] });
  await deleteSessionsOfUser(tx, user_id);
  await log(SECOND_FACTOR_REMOVED);
  return true;
};
