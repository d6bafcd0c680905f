// The password of an account that is there: changed by whoever knows it, or drawn anew by the operator for somebody who cannot
// sign in. Either ends the user's sessions in every tenant, and is in the log of each. Knows no page and no command line.
import type { RequestOrigin } from '../access/caller.ts';
import { type Actor, logRow, operator, PASSWORD_CHANGED } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { addressDigest, randomBase62 } from '../crypto/digest.ts';
import { hashPassword } from '../crypto/password.ts';
import { Sensitive } from '../crypto/sensitive.ts';
import type { PasswordChange, PasswordChangeOutcome } from '../db/passwords.ts';
import { StartError } from '../errors.ts';
import { comparedAddress, parseAddress } from './address.ts';
import { clearAttemptsOfAccount } from './attempts.ts';
import { chosenPasswordProblem, UNCHANGED_PASSWORD } from './chosen-password.ts';
import { drawSession, type Session } from './sessions.ts';
import { countingPassword, isPasswordOf, recordFailedSignIn } from './sign-in.ts';

/** 142 bits: nobody guesses it before it is changed, and it can be read to somebody by telephone. */
const DRAWN_LENGTH = 24;

type Changing = Pick<
  Context,
  'config' | 'db' | 'log' | 'newLogId' | 'now' | 'pepper' | 'randomBytes' | 'refusals' | 'sessions'
>;

export type PasswordResult =
  /** With the secret of the session that goes on. */
  | { kind: 'changed'; secret: string }
  | { kind: 'wrong_password' }
  /** The new one may not be chosen, for this reason. */
  | { kind: 'refused'; reason: string }
  /** The member was removed meanwhile. */
  | { kind: 'gone' };

const write = async (ctx: Changing, actor: Actor, change: PasswordChange): Promise<PasswordChangeOutcome> => {
  let outcome: PasswordChangeOutcome | undefined;
  try {
    outcome = await ctx.db.changePassword(change, (member_id) =>
      logRow(ctx, actor, {
        operation: 'update',
        entity_type: 'tenant_member',
        entity_ids: [member_id],
        message: PASSWORD_CHANGED,
      }),
    );
    return outcome;
  } finally {
    // Before anybody hears of it; other processes hear it from the database. A deed that failed on its way back may have been done.
    if (!outcome) ctx.sessions.forget('all');
    else if (outcome.kind === 'changed') for (const member_id of outcome.member_ids) ctx.sessions.forget({ member_id });
  }
};

const digestOf = (ctx: Pick<Context, 'pepper'>, address: string): Buffer =>
  addressDigest(ctx.pepper, comparedAddress(address));

const change = async (
  ctx: Changing,
  session: Session,
  { current, next, origin }: { current: string; next: string; origin: RequestOrigin },
): Promise<PasswordResult> => {
  const { user_id } = session;
  const user = await ctx.db.findSignInBeforeCaller(digestOf(ctx, session.email));
  // Removed and invited again they are another user.
  if (user?.id !== user_id) return { kind: 'gone' };
  const before = user.password_hash;
  if (!(await isPasswordOf(ctx, current, before))) return { kind: 'wrong_password' };
  if (current.normalize('NFKC') === next.normalize('NFKC')) return { kind: 'refused', reason: UNCHANGED_PASSWORD };
  const drawn = drawSession(ctx, session);
  const password_hash = await hashPassword(ctx.pepper, next);
  const outcome = await write(
    ctx,
    { actor_id: user_id, actor_type: 'user', origin },
    { user_id, before, password_hash, session: drawn.session },
  );
  if (outcome.kind === 'changed') return { kind: 'changed', secret: drawn.secret };
  return { kind: outcome.kind === 'gone' ? 'gone' : 'wrong_password' };
};

/**
 * Changes the password of a session's user, once: of all that come with one current password, one is taken. Counted as signing
 * in is. All sessions of the user end, and one begins in place of this one.
 * @param input.origin where it comes from.
 * @throws too_many_requests; unavailable.
 */
export const changePassword = async (
  ctx: Changing,
  session: Session,
  input: { current: string; next: string; origin: RequestOrigin },
): Promise<PasswordResult> => {
  const { email, first_name, last_name, tenants } = session;
  const reason = await chosenPasswordProblem(input.next, {
    email,
    names: [first_name, last_name],
    tenant_names: tenants.map(({ name }) => name),
  });
  // Before the current one is looked at: it says nothing about that one, and is no attempt.
  if (reason !== undefined) return { kind: 'refused', reason };
  const { origin } = input;
  const result = await countingPassword(
    ctx,
    { address: email, origin },
    () => change(ctx, session, input),
    // Told that the new one is the current one, the person has shown that they know it.
    ({ kind }) => kind === 'changed' || kind === 'refused',
  );
  if (result.kind === 'wrong_password') recordFailedSignIn(ctx, email, origin);
  return result;
};

/**
 * Gives an account a password that was drawn, whatever it had: the operator says whose it is. All its sessions end, and failures
 * to sign in are forgotten.
 * @throws StartError where the address has no account.
 */
export const resetPassword = async (ctx: Changing, email: string): Promise<Sensitive<string>> => {
  const address = parseAddress(email.trim());
  const user = address === undefined ? undefined : await ctx.db.findSignInBeforeCaller(digestOf(ctx, address));
  const password = randomBase62(DRAWN_LENGTH, ctx.randomBytes);
  const outcome =
    user &&
    (await write(ctx, operator, {
      user_id: user.id,
      before: undefined,
      password_hash: await hashPassword(ctx.pepper, password),
      session: undefined,
    }));
  if (address === undefined || outcome?.kind !== 'changed')
    throw new StartError(
      'No account has this address: nothing was changed. Who is no member yet joins by an invitation, and chooses a password then.',
    );
  // The password is set, and is told whatever becomes of the count.
  await clearAttemptsOfAccount(ctx, comparedAddress(address)).catch(() => undefined);
  return new Sensitive(password);
};
