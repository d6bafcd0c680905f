// Acceptance: whoever has an invitation's link becomes a member, as a new user or as the one whom the address belongs to
// already. A link that is unknown, expired, superseded, deleted or used is dead, and all of these look alike.
import type { RequestOrigin } from '../access/caller.ts';
import { INVITATION_ACCEPTED, logRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { type TenantKeys, TenantKeysGone } from '../crypto/keyring.ts';
import { hashPassword, verifyPassword } from '../crypto/password.ts';
import type { Accepted, LinkedInvitation, Role } from '../db/people.ts';
import { chosenPasswordProblem } from './chosen-password.ts';
import { digestOfSecret, openEmail } from './invitations.ts';
import { type Person, sealPerson } from './members.ts';
import type { ProvenMember } from './sessions.ts';

/** An invitation that can be accepted. */
export type OpenInvitation = {
  tenant_id: string;
  invitation_id: string;
  tenant_name: string;
  email: string;
  role: Role;
  /** Whether the address has a password already, which is asked for then. */
  isKnownUser: boolean;
};

export type AcceptanceInput = Omit<Person, 'email'> & { password: string };

export type AcceptanceResult =
  | { kind: 'accepted'; member: ProvenMember }
  | { kind: 'dead' }
  | { kind: 'wrong_password' }
  /** The address has a password since a moment ago, by another invitation: it is to be asked for. */
  | { kind: 'user_came_meanwhile' };

/** A user who goes while they accept is made anew; one who comes and goes again may try again. */
const ATTEMPTS_MAX = 2;

type Found = { row: LinkedInvitation; digest: Buffer; keys: TenantKeys; email: string };

/** Undefined where the tenant went this moment, with its keys. */
const findKeys = (ctx: Context, tenant_id: string): Promise<TenantKeys | undefined> =>
  ctx.keyring.tenantKeys(tenant_id).catch((error: unknown) => {
    if (error instanceof TenantKeysGone) return undefined;
    throw error;
  });

const findLive = async (ctx: Context, secret: string): Promise<Found | undefined> => {
  const digest = digestOfSecret(ctx, secret);
  const row = digest && (await ctx.db.findInvitationBeforeCaller(digest));
  if (!row) return undefined;
  if (row.expires_at <= ctx.now()) {
    await ctx.db.endLinkBeforeCaller(digest);
    return undefined;
  }
  const keys = await findKeys(ctx, row.tenant_id);
  return keys && { row, digest, keys, email: openEmail(ctx, keys, row.tenant_id, row.id, row.sealed) };
};

/** The invitation of a link; undefined for a dead one. Changes nothing of a live one. */
export const findInvitationBeforeCaller = async (ctx: Context, secret: string): Promise<OpenInvitation | undefined> => {
  const found = await findLive(ctx, secret);
  if (!found) return undefined;
  const { tenant_id, id, tenant_name, role, user_id } = found.row;
  return { tenant_id, invitation_id: id, tenant_name, email: found.email, role, isKnownUser: user_id !== null };
};

/** What the log says: the new member's own deed. */
const logsOf =
  (ctx: Context, user_id: string, invitation_id: string, origin: RequestOrigin) =>
  ({ member_id, change, removed }: Accepted) => {
    const actor = { actor_id: user_id, actor_type: 'user', origin } as const;
    const entity_type = 'tenant_invitation';
    const operation = 'delete';
    return [
      ...(change
        ? [logRow(ctx, actor, { operation: change, entity_type: 'tenant_member', entity_ids: [member_id] })]
        : []),
      logRow(ctx, actor, { operation, entity_type, entity_ids: [invitation_id], message: INVITATION_ACCEPTED }),
      ...(removed.length > 0 ? [logRow(ctx, actor, { operation, entity_type, entity_ids: removed })] : []),
    ];
  };

/** The rule that a password breaks, as a sentence; for a new user of an invitation, who chooses one. */
export const newPasswordProblem = (
  { email, tenant_name }: Pick<OpenInvitation, 'email' | 'tenant_name'>,
  { first_name, last_name, password }: AcceptanceInput,
): Promise<string | undefined> =>
  chosenPasswordProblem(password, { email, names: [first_name, last_name], tenant_names: [tenant_name] });

/** The user that is to be the member; undefined for a wrong password. */
const userOf = async (ctx: Context, { row, email }: Found, input: AcceptanceInput) => {
  const { user_id, password_hash, tenant_name } = row;
  const { password } = input;
  if (user_id === null || password_hash === null) {
    // Only where the user went since their password was asked for: who chooses one was told before.
    if ((await newPasswordProblem({ email, tenant_name }, input)) !== undefined) return undefined;
    return { id: ctx.newUuid(), password_hash: await hashPassword(ctx.pepper, password), isNew: true };
  }
  const isRight = await verifyPassword(ctx.pepper, password, password_hash);
  return isRight ? { id: user_id, password_hash, isNew: false } : undefined;
};

/**
 * Accepts an invitation, once: of all that come with one link, one is accepted. Ends all invitations of the tenant to the
 * address. A member already stays what they are, but for becoming the owner where an invitation says so and nobody is.
 * @param input names and password as they were checked; the password is the user's own where the address has one.
 * @throws unavailable where too many passwords are looked at already.
 */
export const acceptInvitation = async (
  ctx: Context,
  secret: string,
  input: AcceptanceInput,
  origin: RequestOrigin = {},
): Promise<AcceptanceResult> => {
  for (let attemptsLeft = ATTEMPTS_MAX; attemptsLeft > 0; attemptsLeft -= 1) {
    const found = await findLive(ctx, secret);
    if (!found) return { kind: 'dead' };
    const { row, digest, keys, email } = found;
    const { tenant_id, id: invitation_id, address_digest } = row;
    const user = await userOf(ctx, found, input);
    if (!user) return { kind: 'wrong_password' };
    const { first_name, last_name } = input;
    const id = ctx.newUuid();
    const sealed = sealPerson(ctx, keys, tenant_id, id, { email, first_name, last_name });
    const outcome = await ctx.db.acceptInvitationBeforeCaller(
      { digest, tenant_id, invitation_id, address_digest, user, member: { id, sealed }, now: ctx.now() },
      logsOf(ctx, user.id, invitation_id, origin),
    );
    if (outcome.kind === 'accepted') {
      const { id: user_id, password_hash } = user;
      return { kind: 'accepted', member: { tenant_id, member_id: outcome.member_id, user_id, password_hash } };
    }
    if (outcome.kind === 'dead') return { kind: 'dead' };
    if (user.isNew) return { kind: 'user_came_meanwhile' };
  }
  return { kind: 'user_came_meanwhile' };
};
