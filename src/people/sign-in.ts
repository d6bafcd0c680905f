// Signing in: an address and a password become a member, or one and the same refusal. Attempts are counted before the work,
// and the work is the same whether there is such an account or not. Knows no cookie and no page.
import type { Context } from '../context.ts';
import { addressDigest } from '../crypto/digest.ts';
import { TYPED_LENGTH_MAX, verifyPassword } from '../crypto/password.ts';
import { comparedAddress, parseAddress } from './address.ts';
import { clearAttempts, countAttempt, isKnownPlace, placeOfIp, rememberPlace, takeBackAttempt } from './attempts.ts';
import { listMemberships, type ProvenMember } from './sessions.ts';

type SigningIn = Pick<Context, 'config' | 'db' | 'pepper' | 'now'>;

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
  { address, ip }: { address: string | undefined; ip: string },
  attempt: () => Promise<T>,
  isRight: (result: T) => boolean,
): Promise<T> => {
  const place = placeOfIp(ip);
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
 * @param input.ip where it comes from.
 * @returns one of the user's memberships, the first by the tenant's name; undefined for a wrong password, an unknown address
 * and what is no address, all alike.
 * @throws too_many_requests; unavailable.
 */
export const signIn = async (
  ctx: SigningIn,
  input: { email: string; password: string; ip: string },
): Promise<ProvenMember | undefined> => {
  const address = parseAddress(input.email.trim());
  return countingPassword(
    ctx,
    { address, ip: input.ip },
    async () => {
      const digest = addressDigest(ctx.pepper, address === undefined ? '' : comparedAddress(address));
      const user = await ctx.db.findSignInBeforeCaller(digest);
      const isRight = await isPasswordOf(ctx, input.password, user?.password_hash);
      if (!isRight || !user) return undefined;
      const { id: user_id, password_hash } = user;
      const [first] = await listMemberships(ctx, user_id);
      return first && { tenant_id: first.tenant_id, member_id: first.member_id, user_id, password_hash };
    },
    (member) => member !== undefined,
  );
};
