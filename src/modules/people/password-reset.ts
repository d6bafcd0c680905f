// Resets a forgotten password by a mailed link. A mailbox alone must never open a vault that requires a second factor.
import { PASSWORD_RESET, type RequestOrigin } from '../../platform/db/audit-record.ts';
import { equalDigests, passwordResetDigest, randomBase62 } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { AppError } from '../../platform/base/errors.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { addMail, dropMails, type MailKind } from '../../platform/mail/mail-outbox.ts';
import { comparedAddress, digestOfAddress, parseAddress } from './address.ts';
import { clearAttempts, countAttempt, isKnownPlace } from './attempts.ts';
import { chosenPasswordProblem, UNCHANGED_PASSWORD } from './chosen-password.ts';
import type { PeopleContext } from './context.ts';
import { LINK_SECRET_LENGTH, linkSecretShape } from './invitations.ts';
import { openPerson, type Person } from '../access/person.ts';
import { findMember } from './rows/members.ts';
import {
  findResetBeforeCaller,
  findUserBeforeCaller,
  type FoundUser,
  holdsReset,
  listMembershipsBeforeCaller,
  putReset,
  replacePassword,
  type StoredMembership,
} from './rows/users.ts';
import { changingUser } from './second-factor.ts';
import { newMail } from './send-mails.ts';
import { requiresSecondFactor } from '../access/tenants.ts';
import { findTenantKeys } from './sessions.ts';
import { findTenantWithoutPasswords } from './sso/provider.ts';

const RESET_TTL_MS = 30 * 60_000;

/** The mail that tells of a reset is tried for so long. */
const NOTICE_TTL_MS = 24 * 60 * 60_000;

/** A user whose password may be reset by mail. */
type Resettable = {
  user: FoundUser;
  person: Person;
  tenant_names: string[];
  /** Whether a tenant of the user requires a second factor. */
  needsDevice: boolean;
  /** Tenant that keeps the mails to the user. */
  tenant_id: string;
  keys: TenantKeys;
};

/** The person of a membership, if the address is the one that the user signs in with: mails go there. */
const openOwner = async (
  ctx: PeopleContext,
  { address_digest }: FoundUser,
  { tenant_id, member_id }: StoredMembership,
): Promise<Pick<Resettable, 'person' | 'keys'> | undefined> => {
  const keys = await findTenantKeys(ctx, tenant_id);
  const member = keys && (await findMember(ctx.db.for({ tenant_id }), member_id));
  if (!keys || !member) return undefined;
  const person = openPerson(ctx, keys, tenant_id, member_id, member.sealed);
  return equalDigests(digestOfAddress(ctx, person.email), address_digest) ? { person, keys } : undefined;
};

/**
 * @param user undefined where no user has the address: what can be looked up is looked up all the same.
 * @returns undefined where no tenant of the user accepts passwords, and where one requires a second factor and the user has none: the
 * reader of the mailbox would sign in by the new password and add a device.
 */
const findResettable = async (ctx: PeopleContext, user: FoundUser | undefined): Promise<Resettable | undefined> => {
  const memberships = await listMembershipsBeforeCaller(ctx.db, user?.id ?? ctx.newUuid());
  const [first] = memberships;
  const owner = user && first && (await openOwner(ctx, user, first));
  if (!owner) return undefined;
  const without = await findTenantWithoutPasswords(ctx, owner.person.email);
  if (memberships.every(({ tenant_id }) => tenant_id === without)) return undefined;
  const needsDevice = memberships.some(({ settings }) => requiresSecondFactor(ctx, settings));
  if (needsDevice && !user.second_factor_since) return undefined;
  const tenant_names = memberships.map(({ name }) => name);
  return { user, ...owner, tenant_names, needsDevice, tenant_id: first.tenant_id };
};

const mailTo = (
  ctx: PeopleContext,
  { user, person, tenant_id, keys }: Resettable,
  mail: { kind: MailKind; secret: string; expires_at: Date },
) => {
  const { id: invitation_id, address_digest } = user;
  return newMail(ctx, keys, { ...mail, tenant_id, invitation_id, address_digest, email: person.email });
};

const sendLink = async (ctx: PeopleContext, address: string, origin: RequestOrigin): Promise<void> => {
  const [account, place] = [comparedAddress(address), placeOfIp(origin.ip ?? '')];
  await countAttempt(ctx, 'reset_of_account_from', { account, place });
  await countAttempt(ctx, 'reset_of_account', { account }, () => isKnownPlace(ctx, { account, place }));
  const found = await findResettable(ctx, await findUserBeforeCaller(ctx.db, digestOfAddress(ctx, address)));
  if (!found) return;
  const { tenant_id, user } = found;
  const user_id = user.id;
  const secret = randomBase62(LINK_SECRET_LENGTH, ctx.randomBytes);
  const digest = passwordResetDigest(ctx.pepper, secret);
  const expires_at = new Date(ctx.now().getTime() + RESET_TTL_MS);
  const mail = mailTo(ctx, found, { kind: 'password_reset', secret, expires_at });
  const actor = { actor_id: null, actor_type: null, origin } as const;
  await changingUser(ctx, { tenant_id, user_id, actor }, async (tx) => {
    await putReset(tx, { digest, user_id, expires_at });
    await dropMails(tx, [user_id]);
    await addMail(tx, mail, mail.created_at);
  });
};

/**
 * Asks for a link, for an address as it was typed. All that depends on the account is done in the background, after the response: neither
 * the response nor its time tells whether there is an account, and whether a mail is sent.
 * @throws too_many_requests for the place.
 */
export const askForReset = async (ctx: PeopleContext, typed: string, origin: RequestOrigin): Promise<void> => {
  await countAttempt(ctx, 'reset_from', { place: placeOfIp(origin.ip ?? '') });
  const address = parseAddress(typed.trim());
  if (address === undefined) return;
  ctx.refusals.inBackground(async () => {
    try {
      await sendLink(ctx, address, origin);
    } catch (error) {
      if (error instanceof AppError && error.code === 'too_many_requests') return;
      ctx.log.error({ error, trace_id: origin.trace_id }, 'a mail that resets a password could not be made');
    }
  });
};

const digestOfLink = ({ pepper }: PeopleContext, secret: string): Buffer | undefined =>
  linkSecretShape.test(secret) ? passwordResetDigest(pepper, secret) : undefined;

/** The user of a link; undefined for a link that does not work, or not any more. */
export const findReset = async (ctx: PeopleContext, secret: string): Promise<Resettable | undefined> => {
  const digest = digestOfLink(ctx, secret);
  const user = digest && (await findResetBeforeCaller(ctx.db, digest, ctx.now()));
  return user && findResettable(ctx, user);
};

type ResetResult =
  | { kind: 'reset' }
  /** The new password breaks a rule. */
  | { kind: 'refused'; reason: string; email: string }
  /** The link was used, has expired, or is not the newest one. */
  | { kind: 'dead' };

/** Takes the link, sets the password, and ends all sessions of the user. @returns false for a link that ended meanwhile. */
const write = (
  ctx: PeopleContext,
  found: Resettable,
  { digest, password_hash, origin }: { digest: Buffer; password_hash: string; origin: RequestOrigin },
): Promise<boolean | undefined> => {
  const { tenant_id, user, needsDevice } = found;
  const user_id = user.id;
  const now = ctx.now();
  const expires_at = new Date(now.getTime() + NOTICE_TTL_MS);
  const mail = mailTo(ctx, found, { kind: 'password_was_reset', secret: '', expires_at });
  const actor = { actor_id: user_id, actor_type: 'user', origin } as const;
  return changingUser(ctx, { tenant_id, user_id, actor }, async (tx, { factor, log }) => {
    // An administrator may have removed the device meanwhile.
    if (needsDevice && !factor.second_factor_since) return false;
    if (!(await holdsReset(tx, user_id, digest, now))) return false;
    await replacePassword(tx, user_id, password_hash);
    await log(PASSWORD_RESET);
    await dropMails(tx, [user_id]);
    await addMail(tx, mail, now);
    return true;
  });
};

/**
 * Sets a new password, once: of concurrent requests with one link, one succeeds. All sessions of the user end, and none begins: the
 * person signs in, with the second factor where there is one.
 * @throws unavailable where too many passwords are being hashed.
 */
export const resetByLink = async (
  ctx: PeopleContext,
  secret: string,
  { next, origin }: { next: string; origin: RequestOrigin },
): Promise<ResetResult> => {
  const digest = digestOfLink(ctx, secret);
  const found = await findReset(ctx, secret);
  if (!digest || !found) return { kind: 'dead' };
  const { user, person, tenant_names } = found;
  const { email, first_name, last_name } = person;
  const reason = await chosenPasswordProblem(next, { email, names: [first_name, last_name], tenant_names });
  if (reason !== undefined) return { kind: 'refused', reason, email };
  if (await ctx.passwords.verify(next, user.password_hash))
    return { kind: 'refused', reason: UNCHANGED_PASSWORD, email };
  const password_hash = await ctx.passwords.hash(next);
  if (!(await write(ctx, found, { digest, password_hash, origin }))) return { kind: 'dead' };
  // Earlier failures do not keep the person out. Counts of codes, and of these mails, go on: a mailbox must not clear them.
  const [account, place] = [comparedAddress(email), placeOfIp(origin.ip ?? '')];
  await clearAttempts(ctx, 'sign_in_of_account', { account }).catch(() => undefined);
  await clearAttempts(ctx, 'sign_in_of_account_from', { account, place }).catch(() => undefined);
  return { kind: 'reset' };
};
