// Changes the password of a user: by the user, or by the operator's reset. Ends all sessions of the user.
import { type Actor, logRow, operator, PASSWORD_CHANGED, type RequestOrigin } from '../../platform/db/audit-record.ts';
import { randomBase62 } from '../../platform/crypto/digest.ts';
import { Sensitive } from '../../platform/crypto/sensitive.ts';
import { runPrismaTransaction } from '../../platform/db/transaction.ts';
import { StartError } from '../../platform/base/errors.ts';
import { comparedAddress, digestOfAddress, parseAddress } from './address.ts';
import { clearAttemptsOfAccount } from './attempts.ts';
import { chosenPasswordProblem, UNCHANGED_PASSWORD } from './chosen-password.ts';
import { insertSession, type NewSession } from './rows/sessions.ts';
import {
  findUserBeforeCaller,
  listMembershipsBeforeCaller,
  lockMembersOfUser,
  lockUser,
  replacePassword,
} from './rows/users.ts';
import type { Changing } from './second-factor.ts';
import { createSession, type Session } from './sessions.ts';
import { countingPassword, isPasswordOf, recordFailedSignIn } from './sign-in.ts';

/** 142 bits: cannot be guessed before the user changes it, and can be read out on the telephone. */
const RESET_PASSWORD_LENGTH = 24;

type PasswordResult =
  /** With the secret of the session that replaces this one. */
  | { kind: 'changed'; secret: string }
  | { kind: 'wrong_password' }
  /** The new password breaks a rule. */
  | { kind: 'refused'; reason: string }
  /** The member was removed meanwhile. */
  | { kind: 'gone' };

type PasswordChange = {
  user_id: string;
  /** The hash that the current password was checked with; left out for a reset. */
  before?: string;
  password_hash: string;
  /** Replaces all sessions that end; left out for none. */
  session?: NewSession;
};

/** Writes a change, with a log row in each tenant of the user. @param tenant_id one of them. */
const writePassword = (
  ctx: Changing,
  tenant_id: string,
  actor: Actor,
  { user_id, before, password_hash, session }: PasswordChange,
): Promise<Exclude<PasswordResult['kind'], 'refused'>> =>
  runPrismaTransaction(ctx.db.forPerson({ tenant_id }), ctx.changes, undefined, async (tx) => {
    const user = await lockUser(tx, user_id);
    if (!user) return 'gone';
    const members = await lockMembersOfUser(tx, user_id);
    if (session && !members.some(({ member_id }) => member_id === session.member_id)) return 'gone';
    if (before !== undefined && before !== user.password_hash) return 'wrong_password';
    await replacePassword(tx, user_id, password_hash);
    if (session) await insertSession(tx, session);
    const change = { operation: 'update', entity_type: 'tenant_member', message: PASSWORD_CHANGED } as const;
    for (const { tenant_id: of, member_id } of members) {
      tx.logIn(of, logRow(ctx, actor, { ...change, entity_ids: [member_id] }));
      tx.changed({ subject: 'member', id: member_id });
    }
    return 'changed';
  });

const change = async (
  ctx: Changing,
  session: Session,
  { current, next, origin }: { current: string; next: string; origin: RequestOrigin },
): Promise<PasswordResult> => {
  const { user_id, tenant_id } = session;
  const user = await findUserBeforeCaller(ctx.db, digestOfAddress(ctx, session.email));
  // A person who was removed and invited again is another user.
  if (user?.id !== user_id) return { kind: 'gone' };
  const before = user.password_hash;
  if (!(await isPasswordOf(ctx, current, before))) return { kind: 'wrong_password' };
  if (current.normalize('NFKC') === next.normalize('NFKC')) return { kind: 'refused', reason: UNCHANGED_PASSWORD };
  const { secret, session: replacing } = createSession(ctx, session, session.second_factor_at);
  const password_hash = await ctx.passwords.hash(next);
  const actor = { actor_id: user_id, actor_type: 'user', origin } as const;
  const kind = await writePassword(ctx, tenant_id, actor, { user_id, before, password_hash, session: replacing });
  return kind === 'changed' ? { kind, secret } : { kind };
};

/**
 * Changes the password of a session's user, once: of concurrent requests with one current password, one succeeds. Attempts count
 * as those to sign in do. All sessions of the user end, and a new one replaces this one.
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
  // Before the current password is checked: this says nothing about it, and is no attempt.
  if (reason !== undefined) return { kind: 'refused', reason };
  const { origin } = input;
  const result = await countingPassword(
    ctx,
    { address: email, origin },
    () => change(ctx, session, input),
    // A refusal means that the current password was right.
    ({ kind }) => kind === 'changed' || kind === 'refused',
  );
  if (result.kind === 'wrong_password') recordFailedSignIn(ctx, email, origin);
  return result;
};

/**
 * Gives a user a random password, for the operator. All their sessions end, and failures to sign in are forgotten.
 * @throws StartError where no user has the address.
 */
export const resetPassword = async (ctx: Changing, email: string): Promise<Sensitive<string>> => {
  const address = parseAddress(email.trim());
  const user = address === undefined ? undefined : await findUserBeforeCaller(ctx.db, digestOfAddress(ctx, address));
  const [membership] = user ? await listMembershipsBeforeCaller(ctx.db, user.id) : [];
  const password = randomBase62(RESET_PASSWORD_LENGTH, ctx.randomBytes);
  const kind =
    user &&
    membership &&
    (await writePassword(ctx, membership.tenant_id, operator, {
      user_id: user.id,
      password_hash: await ctx.passwords.hash(password),
    }));
  if (address === undefined || kind !== 'changed')
    throw new StartError(
      'No account has this address: nothing was changed. A person who is not a member yet joins by an invitation, and chooses a password then.',
    );
  // The password is set, whether or not the counts can be cleared.
  await clearAttemptsOfAccount(ctx, comparedAddress(address)).catch(() => undefined);
  return new Sensitive(password);
};
