// Signing in: an address and a password become a member, or one and the same refusal. Attempts are counted before the work,
// and the work is the same whether there is such an account or not. Knows no cookie and no page.
import type { RequestOrigin } from '../access/caller.ts';
import { logRow, SIGN_IN_FAILED } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { addressDigest } from '../crypto/digest.ts';
import { TYPED_LENGTH_MAX, verifyPassword } from '../crypto/password.ts';
import { comparedAddress, parseAddress } from './address.ts';
import { clearAttempts, countAttempt, isKnownPlace, placeOfIp, rememberPlace, takeBackAttempt } from './attempts.ts';
import { listMemberships, type ProvenMember } from './sessions.ts';

type SigningIn = Pick<Context, 'config' | 'db' | 'log' | 'newLogId' | 'now' | 'pepper' | 'refusals'>;

const addressDigestOf = (ctx: Pick<Context, 'pepper'>, address: string | undefined): Buffer =>
  addressDigest(ctx.pepper, address === undefined ? '' : comparedAddress(address));

/**
 * Logs a wrong password: in each tenant that the account is a member of or, where there is no such account, in the process
 * log alone. Everything is looked up after the answer is under way, so the answer's time says nothing of the account.
 * @param address as typed or stored; undefined for what is no address.
 */
export const recordFailedSignIn = (ctx: SigningIn, address: string | undefined, origin: RequestOrigin): void =>
  ctx.refusals.inBackground(async () => {
    const user = await ctx.db.findSignInBeforeCaller(addressDigestOf(ctx, address));
    if (!user) {
      const { trace_id, ip } = origin;
      ctx.log.info({ trace_id, ip }, 'a sign-in failed: no account has the address');
      return;
    }
    for (const { tenant_id, member_id } of await listMemberships(ctx, user.id)) {
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

/** Whether what was typed is the password that was hashed. @param hash undefined where there is no such account. */
export const isPasswordOf = (
  { pepper }: Pick<Context, 'pepper'>,
  typed: string,
  hash: string | undefined,
): Promise<boolean> => verifyPassword(pepper, typed.length <= TYPED_LENGTH_MAX ? typed : '', hash);

/**
 * Counts an attempt with a password, then makes it. One that succeeds is no attempt; earlier ones of the account from this
 * place are forgotten, and the place is known from then on: failures elsewhere do not lock the account there.
 * @param address as typed or stored; undefined for what is no address, which is counted by where it came from alone.
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
    // In this order: one place that fails again and again adds no more than its own ten to the count of all places.
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
    // It told nobody anything about the password.
    await forgive(false).catch(() => undefined);
    throw error;
  }
  // What was done stands, whatever becomes of the count.
  if (isRight(result)) await forgive(true).catch(() => undefined);
  return result;
};

/**
 * @param input.origin where it comes from.
 * @returns one of the user's memberships, the first by the tenant's name; undefined for a wrong password, an unknown address
 * and what is no address, all alike.
 * @throws too_many_requests; unavailable.
 */
export const signIn = async (
  ctx: SigningIn,
  input: { email: string; password: string; origin: RequestOrigin },
): Promise<ProvenMember | undefined> => {
  const address = parseAddress(input.email.trim());
  const { origin } = input;
  const signedIn = await countingPassword(
    ctx,
    { address, origin },
    async () => {
      const user = await ctx.db.findSignInBeforeCaller(addressDigestOf(ctx, address));
      const isRight = await isPasswordOf(ctx, input.password, user?.password_hash);
      if (!isRight || !user) return undefined;
      const { id: user_id, password_hash } = user;
      const [first] = await listMemberships(ctx, user_id);
      return first && { tenant_id: first.tenant_id, member_id: first.member_id, user_id, password_hash };
    },
    (member) => member !== undefined,
  );
  if (!signedIn) recordFailedSignIn(ctx, address, origin);
  return signedIn;
};
