// Signs a person in by address and password: counts attempts, and does the same work for unknown addresses.
import { logRow, type RequestOrigin, SIGN_IN_FAILED } from '../../platform/db/audit-record.ts';
import { TYPED_LENGTH_MAX } from '../../platform/crypto/password.ts';
import { comparedAddress, digestOfAddress, parseAddress } from './address.ts';
import { clearAttempts, countAttempt, isKnownPlace, rememberPlace, takeBackAttempt } from './attempts.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import type { PeopleContext } from './context.ts';
import { findUserBeforeCaller, listMembershipsBeforeCaller } from './rows/users.ts';
import type { ProvenMember } from './sessions.ts';
import { findTenantWithoutPasswords } from './sso/provider.ts';

type SigningIn = Pick<
  PeopleContext,
  'config' | 'db' | 'log' | 'metrics' | 'newLogId' | 'now' | 'passwords' | 'pepper' | 'refusals'
>;

/** To read whether the tenant of an address accepts passwords. */
type Opening = Pick<PeopleContext, 'environment' | 'keyring' | 'randomBytes'>;

/** Looks an address up also where it is none, so that the work is the same. */
const findUser = (ctx: SigningIn, address: string | undefined) =>
  findUserBeforeCaller(ctx.db, digestOfAddress(ctx, address ?? ''));

/**
 * Logs a wrong password: in each tenant of the user, or in the process log where no user has the address. Runs in the background,
 * so that the time of the response does not tell whether there is such a user.
 * @param address undefined for a text that is not an address.
 */
export const recordFailedSignIn = (ctx: SigningIn, address: string | undefined, origin: RequestOrigin): void =>
  ctx.refusals.inBackground(async () => {
    const user = await findUser(ctx, address);
    if (!user) {
      const { trace_id, otel_trace_id, ip } = origin;
      ctx.log.info({ trace_id, otel_trace_id, ip }, 'a sign-in failed: no account has the address');
      return;
    }
    for (const { tenant_id, member_id } of await listMembershipsBeforeCaller(ctx.db, user.id)) {
      const row = logRow(
        ctx,
        { actor_id: null, actor_type: null, origin },
        {
          operation: 'use',
          entity_type: 'tenant_member',
          entity_ids: [member_id],
          message: SIGN_IN_FAILED,
          outcome: 'refused',
        },
      );
      await ctx.refusals.recordRow(tenant_id, row);
    }
  });

/** Whether a typed password has this hash. @param hash undefined where there is no such user. */
export const isPasswordOf = (
  { passwords }: Pick<PeopleContext, 'passwords'>,
  typed: string,
  hash: string | undefined,
): Promise<boolean> => passwords.verify(typed.length <= TYPED_LENGTH_MAX ? typed : '', hash);

/**
 * Counts an attempt with a password, then makes it. Success takes it back, clears earlier failures of the account from this place,
 * and makes the place known: failures elsewhere do not lock the account there.
 * @param address undefined for a text that is not an address: the attempt counts for the place only.
 * @throws too_many_requests.
 */
export const countingPassword = async <T>(
  ctx: SigningIn,
  { address, origin }: { address: string | undefined; origin: RequestOrigin },
  attempt: () => Promise<T>,
  isRight: (result: T) => boolean,
): Promise<T> => {
  const place = placeOfIp(origin.ip ?? '');
  await countAttempt(ctx, 'sign_in_from', { place });
  const account = address && comparedAddress(address);
  if (account) {
    // In this order: one place adds no more failures to the count of all places than its own limit.
    await countAttempt(ctx, 'passwords_of_account_from', { account, place });
    await countAttempt(ctx, 'sign_in_of_account_from', { account, place });
    await countAttempt(ctx, 'sign_in_of_account', { account }, () => isKnownPlace(ctx, { account, place }));
  }
  const forgive = async (isAccountProven: boolean): Promise<void> => {
    await takeBackAttempt(ctx, 'sign_in_from', { place });
    if (!account) return;
    await takeBackAttempt(ctx, 'sign_in_of_account', { account });
    await (isAccountProven ? clearAttempts : takeBackAttempt)(ctx, 'sign_in_of_account_from', { account, place });
    if (isAccountProven) await rememberPlace(ctx, { account, place });
  };
  let result: T;
  try {
    result = await attempt();
  } catch (error) {
    // The client has learnt nothing about the password.
    await forgive(false).catch(() => undefined);
    throw error;
  }
  // The operation is done, whether or not the counts can be corrected.
  if (isRight(result)) await forgive(true).catch(() => undefined);
  return result;
};

/**
 * @returns the user's first membership by the tenant's name, among the tenants that accept passwords; `sso_only` where the password is
 * right and none does; undefined for a wrong password, an unknown address and a text that
 * is not an address, all alike.
 * @throws too_many_requests; unavailable.
 */
export const signIn = async (
  ctx: SigningIn & Opening,
  input: { email: string; password: string; origin: RequestOrigin },
): Promise<ProvenMember | 'sso_only' | undefined> => {
  const address = parseAddress(input.email.trim());
  const { origin } = input;
  const signedIn = await countingPassword(
    ctx,
    { address, origin },
    async () => {
      const user = await findUser(ctx, address);
      const isRight = await isPasswordOf(ctx, input.password, user?.password_hash);
      if (!isRight || !user) return undefined;
      const { id: user_id, password_hash } = user;
      const memberships = await listMembershipsBeforeCaller(ctx.db, user_id);
      const without =
        memberships.length > 0 && address !== undefined && (await findTenantWithoutPasswords(ctx, address));
      const first = memberships.find(({ tenant_id }) => tenant_id !== without);
      if (!first && memberships.length > 0) return 'sso_only' as const;
      return first && { tenant_id: first.tenant_id, member_id: first.member_id, user_id, password_hash };
    },
    (member) => member !== undefined,
  );
  if (!signedIn) recordFailedSignIn(ctx, address, origin);
  return signedIn;
};
