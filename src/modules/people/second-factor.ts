// The second factor of users: sets up an authenticator app, and takes its codes and recovery codes.
import {
  type Actor,
  logRow,
  type PASSWORD_RESET,
  type PASSKEY_ADDED,
  PASSKEY_CLONED,
  type PASSKEY_REMOVED,
  PASSKEY_USED,
  RECOVERY_CODE_USED,
  type RequestOrigin,
  SECOND_FACTOR_ADDED,
  SECOND_FACTOR_GIVEN,
  type SECOND_FACTOR_REMOVED,
} from '../../platform/db/audit-record.ts';
import { equalDigests, recoveryCodeDigest, sessionDigest } from '../../platform/crypto/digest.ts';
import { newRecoveryCode, newTotpSecret, stepOfCode } from '../../platform/crypto/totp.ts';
import { openUserSecret, sealUserSecret } from '../../platform/keys/user-secrets.ts';
import { type PrismaTransaction, runPrismaTransaction } from '../../platform/db/transaction.ts';
import { notFound, unprocessable } from '../../platform/base/errors.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { comparedAddress, digestOfAddress } from './address.ts';
import { clearAttempts, countAttempt, isKnownPlace, rememberPlace, takeBackAttempt } from './attempts.ts';
import type { PeopleContext } from './context.ts';
import { type ListedPasskey, openPasskeys } from './passkey-records.ts';
import { readPasskeyRows, readSecondFactor, type StoredSecondFactor, updateSecondFactor } from './rows/devices.ts';
import { deleteOldestSessions, markSecondFactor } from './rows/sessions.ts';
import { findUserBeforeCaller, lockMembersOfUser, lockUser } from './rows/users.ts';
import type { Session } from './sessions.ts';
import { countingPassword, isPasswordOf, recordFailedSignIn } from './sign-in.ts';

/** Shown once, when the first device is added. Each works once. */
const RECOVERY_CODES = 10;

/** Revealing a value and changing people or keys need a code that is no older. */
const STEP_UP_MS = 10 * 60_000;

/**
 * A member who has a device gives it, also where a provider signed them in: the device counts in all tenants of the user, and no provider
 * stands in for it. A member without one who is signed in by single sign-on proves it again at the provider.
 */
export const needsStepUp = (
  { now }: Pick<PeopleContext, 'now'>,
  { hasDevice, second_factor_at, sso }: Pick<Session, 'hasDevice' | 'second_factor_at' | 'sso'>,
): boolean => {
  const givenMs = hasDevice ? (second_factor_at?.getTime() ?? 0) : sso?.atMs;
  return givenMs !== undefined && givenMs + STEP_UP_MS < now().getTime();
};

export type Changing = Pick<
  PeopleContext,
  | 'changes'
  | 'config'
  | 'db'
  | 'environment'
  | 'log'
  | 'metrics'
  | 'newLogId'
  | 'now'
  | 'passwords'
  | 'pepper'
  | 'randomBytes'
  | 'refusals'
  | 'sessions'
>;

/** A session of the console, with the secret of its cookie. */
export type Visitor = { session: Session; secret: string; origin: RequestOrigin };

type Message =
  | typeof PASSWORD_RESET
  | typeof PASSKEY_ADDED
  | typeof PASSKEY_CLONED
  | typeof PASSKEY_REMOVED
  | typeof PASSKEY_USED
  | typeof RECOVERY_CODE_USED
  | typeof SECOND_FACTOR_ADDED
  | typeof SECOND_FACTOR_GIVEN
  | typeof SECOND_FACTOR_REMOVED;

/** Messages about the use of a device. The others are about changes of the devices. */
const uses: readonly Message[] = [SECOND_FACTOR_GIVEN, RECOVERY_CODE_USED, PASSKEY_USED, PASSKEY_CLONED];

const actorOf = ({ session, origin }: Visitor): Actor => ({
  actor_id: session.user_id,
  actor_type: 'user',
  origin,
});

type Members = Awaited<ReturnType<typeof lockMembersOfUser>>;

/** A user whom a transaction holds. */
export type HeldUser = {
  members: Members;
  factor: StoredSecondFactor;
  passkeys: ListedPasskey[];
  log(message: Message): void;
};

/** Changes a user whom the transaction holds: a log row in each tenant, and caches of sessions end. @returns undefined for no user. */
export const changingUser = <T>(
  ctx: Changing,
  { tenant_id, user_id, actor }: { tenant_id: string; user_id: string; actor: Actor },
  change: (tx: PrismaTransaction, user: HeldUser) => Promise<T>,
): Promise<T | undefined> =>
  runPrismaTransaction(ctx.db.forPerson({ tenant_id }), ctx.changes, undefined, async (tx) => {
    if (!(await lockUser(tx, user_id))) return undefined;
    const members = await lockMembersOfUser(tx, user_id);
    const factor = await readSecondFactor(tx, user_id);
    if (!factor) return undefined;
    const log = (message: Message): void => {
      const operation = uses.includes(message) ? 'use' : 'update';
      const outcome = message === PASSKEY_CLONED ? 'refused' : 'success';
      for (const { tenant_id: of, member_id } of members) {
        const about = { entity_type: 'tenant_member', entity_ids: [member_id] };
        tx.logIn(of, logRow(ctx, actor, { operation, ...about, message, outcome }));
        tx.changed({ subject: 'member', id: member_id });
      }
    };
    const passkeys = openPasskeys(
      ctx,
      { user_id, since: factor.second_factor_since },
      await readPasskeyRows(tx, user_id),
    );
    return change(tx, { members, factor, passkeys, log });
  });

/** The user of a session, as `changingUser` takes it. */
export const userOf = (visitor: Visitor) => ({
  tenant_id: visitor.session.tenant_id,
  user_id: visitor.session.user_id,
  actor: actorOf(visitor),
});

/** Whether an app is set up: a first code has given it a step. */
export const hasApp = ({ second_factor, second_factor_since, second_factor_step }: StoredSecondFactor): boolean =>
  second_factor !== null && second_factor_since !== null && second_factor_step !== null;

/** @throws unprocessable. */
const checkMayAddDevices = ({ mayAddDevices }: Session): void => {
  if (!mayAddDevices)
    throw unprocessable(
      'You are a member of several tenants, and the provider of one has signed you in. Sign in with your password to change your second factor.',
    );
};

/**
 * Whether a typed password is that of the session's user. Comes before a device is added: an open browser alone must not be enough
 * to lock its owner out. In place of a password, a session that began by single sign-on needs a sign-in of the last minutes.
 * @throws too_many_requests; unprocessable for a session that may not add devices.
 */
export const isOwnPassword = async (
  ctx: Changing,
  { session, origin }: Visitor,
  password: string,
): Promise<boolean> => {
  checkMayAddDevices(session);
  if (session.sso) return !needsStepUp(ctx, session);
  const { user_id, email: address } = session;
  const isRight = await countingPassword(
    ctx,
    { address, origin },
    async () => {
      const user = await findUserBeforeCaller(ctx.db, digestOfAddress(ctx, address));
      return isPasswordOf(ctx, password, user?.id === user_id ? user.password_hash : undefined);
    },
    (result) => result,
  );
  if (!isRight) recordFailedSignIn(ctx, address, origin);
  return isRight;
};

/** Draws the secret of an app, which counts from its first code on. @returns false for a wrong password. @throws too_many_requests. */
export const offerDevice = async (ctx: Changing, visitor: Visitor, password: string): Promise<boolean> => {
  const { user_id } = visitor.session;
  if (!(await isOwnPassword(ctx, visitor, password))) return false;
  await changingUser(ctx, userOf(visitor), async (tx, { factor }) => {
    if (hasApp(factor)) return;
    const second_factor = sealUserSecret(ctx, user_id, newTotpSecret(ctx.randomBytes));
    await updateSecondFactor(tx, user_id, { second_factor, second_factor_step: null });
  });
  return true;
};

/** A code as it was typed, without spaces and hyphens. */
const plainCode = (typed: string): string => typed.replaceAll(/[\s-]/g, '').toUpperCase();

/** Uses a code of the device, once. @returns whether it was right. */
const useCode = async (
  ctx: Changing,
  tx: PrismaTransaction,
  { user_id, factor, code }: { user_id: string; factor: StoredSecondFactor; code: string },
): Promise<boolean> => {
  if (!factor.second_factor || !/^\d{6}$/.test(code)) return false;
  const step = stepOfCode(openUserSecret(ctx, user_id, factor.second_factor), code, ctx.now());
  if (step === undefined || step <= Number(factor.second_factor_step ?? -1)) return false;
  await updateSecondFactor(tx, user_id, { second_factor_step: BigInt(step) });
  return true;
};

/** Uses a recovery code, once. @returns whether it was right. */
const useRecoveryCode = async (
  ctx: Changing,
  tx: PrismaTransaction,
  { user_id, factor, code }: { user_id: string; factor: StoredSecondFactor; code: string },
): Promise<boolean> => {
  const digest = recoveryCodeDigest(ctx.pepper, user_id, code);
  const left = factor.recovery_digests.filter((each) => !equalDigests(each, digest));
  if (left.length === factor.recovery_digests.length) return false;
  await updateSecondFactor(tx, user_id, { recovery_digests: left });
  return true;
};

const COUNTS_OF_PLACE = ['code_of_account_from', 'code_of_account_from_in_day'] as const;
const COUNTS_OF_ALL_PLACES = ['code_of_account', 'code_of_account_in_day'] as const;

/** What codes are counted for. */
const subjectOf = ({ session, origin }: Visitor): { account: string; place: string } => {
  const { email, sso, tenant_id } = session;
  // Counted apart: an attacker who controls the provider of a tenant must not lock its members out of other tenants.
  const account = sso ? `${tenant_id} ${comparedAddress(email)}` : comparedAddress(email);
  return { account, place: placeOfIp(origin.ip ?? '') };
};

/** The person has given the second factor at this place: wrong codes from elsewhere do not keep them out here. */
export const rememberFactorPlace = (ctx: Changing, visitor: Visitor): Promise<void> =>
  rememberPlace(ctx, subjectOf(visitor), 'known_place_of_factor');

/** Counts an attempt, then makes it. A right one forgets the failures at its place. @throws too_many_requests. */
const countingCode = async <T>(ctx: Changing, visitor: Visitor, attempt: () => Promise<T>): Promise<T> => {
  const { account, place } = subjectOf(visitor);
  const isKnown = () => isKnownPlace(ctx, { account, place }, 'known_place_of_factor');
  // In this order: what is refused at one place adds nothing to the counts of all.
  for (const name of COUNTS_OF_PLACE) await countAttempt(ctx, name, { account, place });
  for (const name of COUNTS_OF_ALL_PLACES) await countAttempt(ctx, name, { account }, isKnown);
  const result = await attempt();
  if (!result) {
    recordFailedSignIn(ctx, visitor.session.email, visitor.origin);
    return result;
  }
  for (const name of COUNTS_OF_PLACE) await clearAttempts(ctx, name, { account, place });
  for (const name of COUNTS_OF_ALL_PLACES) await takeBackAttempt(ctx, name, { account });
  await rememberFactorPlace(ctx, visitor);
  return result;
};

export const markSession = async (
  ctx: Changing,
  tx: PrismaTransaction,
  { secret, session }: Visitor,
): Promise<void> => {
  const digest = sessionDigest(ctx.pepper, secret);
  if (!(await markSecondFactor(tx, session.user_id, digest, ctx.now()))) throw notFound('session');
  await deleteOldestSessions(tx, session);
};

/** @returns what the user gets with the first device: its time, and the recovery codes as they are shown and as they are kept. */
export const beginDevices = (ctx: Changing, user_id: string) => {
  const codes = Array.from({ length: RECOVERY_CODES }, () => newRecoveryCode(ctx.randomBytes));
  return {
    since: ctx.now(),
    recoveryCodes: codes.map((code) => code.replaceAll(/(.{4})(?=.)/g, '$1-')),
    recovery_digests: codes.map((code) => recoveryCodeDigest(ctx.pepper, user_id, code)),
  };
};

/**
 * The first code of a new app: from now on sessions need the second factor. Other sessions of the user ask for it too.
 * @returns the recovery codes, to be shown once, none where there is another device; undefined for a wrong code.
 * @throws too_many_requests.
 */
export const confirmDevice = async (ctx: Changing, visitor: Visitor, typed: string): Promise<string[] | undefined> => {
  checkMayAddDevices(visitor.session);
  return countingCode(ctx, visitor, () =>
    changingUser(ctx, userOf(visitor), async (tx, { factor, log }) => {
      const { user_id } = visitor.session;
      if (hasApp(factor)) return undefined;
      if (!(await useCode(ctx, tx, { user_id, factor, code: plainCode(typed) }))) return undefined;
      const first = factor.second_factor_since ? undefined : beginDevices(ctx, user_id);
      if (first) {
        const { since: second_factor_since, recovery_digests } = first;
        await updateSecondFactor(tx, user_id, { second_factor_since, recovery_digests });
      }
      await markSession(ctx, tx, visitor);
      await log(SECOND_FACTOR_ADDED);
      return first?.recoveryCodes ?? [];
    }),
  );
};

/** Takes a code of the app, or a recovery code, for a session. @returns whether it was right. @throws too_many_requests. */
export const giveCode = async (ctx: Changing, visitor: Visitor, typed: string): Promise<boolean> => {
  const code = plainCode(typed);
  const { user_id } = visitor.session;
  const given = await countingCode(ctx, visitor, () =>
    changingUser(ctx, userOf(visitor), async (tx, { factor, log }) => {
      if (!factor.second_factor_since) return false;
      const use = { user_id, factor, code };
      const isCode = hasApp(factor) && (await useCode(ctx, tx, use));
      if (!isCode && !(await useRecoveryCode(ctx, tx, use))) return false;
      await markSession(ctx, tx, visitor);
      await log(isCode ? SECOND_FACTOR_GIVEN : RECOVERY_CODE_USED);
      return true;
    }),
  );
  return given === true;
};
