// Removes the second factor of a person who lost the device: by the operator, or by an administrator.
import { operator } from '../../platform/db/audit-record.ts';
import { notFound, StartError, unprocessable } from '../../platform/base/errors.ts';
import { comparedAddress, digestOfAddress, parseAddress } from './address.ts';
import { clearAttemptsOfAccount } from './attempts.ts';
import { forgetDevice } from './devices.ts';
import { findMember } from './rows/members.ts';
import { findUserBeforeCaller, listMembershipsBeforeCaller } from './rows/users.ts';
import { type Changing, changingUser, type Visitor } from './second-factor.ts';

/** For the operator. All sessions of the person end, and failures and known places of the account are forgotten. @throws StartError where no user with a device has the address. */
export const resetSecondFactor = async (ctx: Changing, email: string): Promise<void> => {
  const address = parseAddress(email.trim());
  const user = address === undefined ? undefined : await findUserBeforeCaller(ctx.db, digestOfAddress(ctx, address));
  const [membership] = user ? await listMembershipsBeforeCaller(ctx.db, user.id) : [];
  const isReset =
    user &&
    membership &&
    (await changingUser(ctx, { tenant_id: membership.tenant_id, user_id: user.id, actor: operator }, (tx, found) =>
      forgetDevice(ctx, tx, user.id, found),
    ));
  if (address === undefined || !isReset)
    throw new StartError('No account with a second factor has this address: nothing was changed.');
  await clearAttemptsOfAccount(ctx, comparedAddress(address));
};

/**
 * For an administrator, of another member. The device belongs to the user, whom tenants share: one tenant must not weaken the
 * sign-in to another one.
 * @throws notFound; unprocessable for the owner, for oneself, for a member of further tenants, and without a device.
 */
export const resetMemberSecondFactor = async (ctx: Changing, visitor: Visitor, member_id: string): Promise<void> => {
  const { tenant_id, user_id } = visitor.session;
  const member = await findMember(ctx.db.for({ tenant_id }), member_id);
  if (!member) throw notFound('member');
  if (member.user_id === user_id) throw unprocessable('Remove your own second factor under Account.');
  const onlyOperator = () =>
    unprocessable('Only the operator of this vault can reset the second factor of this member.');
  // Verified, so that a row that was changed to another user resets nothing.
  const memberships = await listMembershipsBeforeCaller(ctx.db, member.user_id);
  if (member.role === 'OWNER' || !memberships.some((each) => each.member_id === member_id)) throw onlyOperator();
  const actor = { actor_id: user_id, actor_type: 'user', origin: visitor.origin } as const;
  const isReset = await changingUser(ctx, { tenant_id, user_id: member.user_id, actor }, async (tx, found) => {
    const [first, ...others] = found.members;
    if (first?.tenant_id !== tenant_id || others.length > 0) throw onlyOperator();
    return forgetDevice(ctx, tx, member.user_id, found);
  });
  if (!isReset) throw unprocessable('This member has no second factor.');
};
