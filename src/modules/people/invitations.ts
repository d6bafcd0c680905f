// Invitations: a mail asks a person to become a member, with a link that works once within 72 hours.
import { hasDailyLimit } from '../access/limits.ts';
import { resourceOf } from '../access/resource.ts';
import { mayAnywhere } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import { invitationSecretDigest, randomBase62 } from '../../platform/crypto/digest.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { openText, sealText, type SealedPlace, type Sealing } from '../../platform/keys/sealed-text.ts';
import type { PrismaTransaction } from '../../platform/db/transaction.ts';
import {
  alreadyExists,
  AppError,
  forbidden,
  invalidField,
  notFound,
  tooManyRecords,
  unauthorized,
} from '../../platform/base/errors.ts';
import { enqueueInvitation, type NewMail } from '../../platform/mail/mail-outbox.ts';
import type { Page, PageRequest } from '../../platform/base/pagination.ts';
import { digestOfAddress, newAddressProblem } from './address.ts';
import type { PeopleContext } from './context.ts';
import { newMail } from './send-mails.ts';
import {
  countInvitations,
  findInvitation,
  insertInvitation,
  type InvitationFilter,
  listInvitations as listInvitationRows,
  lockInvitation,
  type NewInvitation,
  removeInvitation,
  replaceLink,
  type StoredInvitation,
} from './rows/invitations.ts';
import { findMemberOfUser, isMember } from './rows/members.ts';
import { countPeople, hasOwner, lockTenant } from './rows/people.ts';
import { type GivenRole, mayInvite, type Role } from './roles.ts';

export const INVITATION_HOURS = 72;
export const INVITATION_TTL_MS = INVITATION_HOURS * 3_600_000;

/** Members and invitations of a tenant together: few enough to be counted with each invitation. */
export const PEOPLE_MAX = 10_000;

/** 32 base62 characters: 190 bits, as of a proxy's key. */
export const LINK_SECRET_LENGTH = 32;

export const linkSecretShape = new RegExp(`^[0-9A-Za-z]{${LINK_SECRET_LENGTH}}$`);

export const invitationStatuses = ['PENDING', 'EXPIRED'] as const;

type InvitationStatus = (typeof invitationStatuses)[number];

/** Invitation as the API shows it. Undefined properties are left out. */
type InvitationRecord = {
  id: string;
  tenant_id: string;
  email: string;
  role: Role;
  status: InvitationStatus;
  expires_at: string;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'tenant_invitation',
  id,
  field: 'email',
});

/** The address that is invited. */
export const openEmail = (ctx: Sealing, keys: TenantKeys, tenant_id: string, id: string, sealed: Uint8Array): string =>
  openText(ctx, keys, placeOf(tenant_id, id), sealed);

/** The digest of a link's secret; undefined for a text that cannot be one. */
export const digestOfSecret = ({ pepper }: Pick<PeopleContext, 'pepper'>, secret: string): Buffer | undefined =>
  linkSecretShape.test(secret) ? invitationSecretDigest(pepper, secret) : undefined;

const newSecret = (ctx: PeopleContext): { secret: string; digest: Buffer } => {
  const secret = randomBase62(LINK_SECRET_LENGTH, ctx.randomBytes);
  return { secret, digest: invitationSecretDigest(ctx.pepper, secret) };
};

const recordOf = (
  ctx: PeopleContext,
  tenant_id: string,
  row: Omit<StoredInvitation, 'sealed'>,
  email: string,
): InvitationRecord => ({
  id: row.id,
  tenant_id,
  email,
  role: row.role,
  // A link that was ended stays ended, also where the clock of a process is behind.
  status: row.has_link && row.expires_at > ctx.now() ? 'PENDING' : 'EXPIRED',
  expires_at: row.expires_at.toISOString(),
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

const showInvitations = async (ctx: PeopleContext, { tenant_id }: Work, rows: readonly StoredInvitation[]) => {
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  return rows.map((row) => recordOf(ctx, tenant_id, row, openEmail(ctx, keys, tenant_id, row.id, row.sealed)));
};

const invitations = resourceOf<PeopleContext, StoredInvitation, InvitationFilter, InvitationRecord>({
  entity_type: 'tenant_invitation',
  noun: 'invitation',
  find: findInvitation,
  count: countInvitations,
  list: listInvitationRows,
  lock: lockInvitation,
  remove: removeInvitation,
  show: showInvitations,
});

/** @throws notFound for an unknown id and another tenant's alike. */
export const getInvitation = invitations.read;

/** Removes an invitation, and ends its links. @throws notFound. */
export const deleteInvitation = invitations.delete;

/** A page, newest first. @param input.status only these; undefined for all. */
export const listInvitations = (
  ctx: PeopleContext,
  work: Work,
  input: { status: InvitationStatus | undefined; page: PageRequest },
): Promise<Page<InvitationRecord>> => invitations.list(ctx, work, { ...input, now: ctx.now() });

/** Nothing changes until the operator sets up mail: clients need not retry often. */
const NO_MAIL_RETRY_SECONDS = 3600;

/** @throws unavailable where the server sends no mail. */
const checkMail = ({ config }: PeopleContext): void => {
  if (config.mail !== undefined) return;
  const sentence = 'This server sends no mail, so it cannot invite anyone. The operator must set SMTP_URL.';
  throw new AppError('unavailable', sentence, { retryAfterSeconds: NO_MAIL_RETRY_SECONDS });
};

const expiryFrom = (now: Date): Date => new Date(now.getTime() + INVITATION_TTL_MS);

/** An invitation that is not written yet. */
type InvitationDraft = {
  row: NewInvitation;
  email: string;
  /** Secret of its link. */
  secret: string;
  digest: Buffer;
  mail: NewMail;
};

/** @throws invalidInput for a text that is not one address, and for one beyond ASCII before its @. */
export const draftInvitation = async (
  ctx: PeopleContext,
  input: { tenant_id: string; email: string; role: Role; created_by: string | null },
): Promise<InvitationDraft> => {
  const { tenant_id, role, created_by } = input;
  const { email } = input;
  const problem = newAddressProblem(email);
  if (problem !== undefined) throw invalidField('email', problem);
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = ctx.newUuid();
  const { secret, digest } = newSecret(ctx);
  const created_at = ctx.now();
  const expires_at = expiryFrom(created_at);
  const address_digest = digestOfAddress(ctx, email);
  const sealed = sealText(ctx, keys, placeOf(tenant_id, id), email);
  const row = { id, role, address_digest, sealed, expires_at, created_at, created_by };
  const mail = newMail(ctx, keys, {
    kind: 'invitation',
    tenant_id,
    invitation_id: id,
    email,
    address_digest,
    secret,
    expires_at,
  });
  return { row, email, secret, digest, mail };
};

/**
 * Writes an invitation with its link.
 * @param by_user_id the member who invites; undefined for an application and the operator.
 * @throws notFound for a deleted tenant; unauthorized for a member who was removed; conflict.
 */
export const writeInvitation = async (
  tx: PrismaTransaction,
  { row, digest }: InvitationDraft,
  by_user_id?: string,
): Promise<void> => {
  const { role, address_digest } = row;
  if (!(await lockTenant(tx))) throw notFound('tenant');
  // A member who is removed or loses the role at the same time must not leave a way back behind.
  if (by_user_id !== undefined) {
    const member = await findMemberOfUser(tx, by_user_id);
    if (!member) throw unauthorized('The member who invites was removed from the tenant.');
    if (!mayInvite(member.role)) throw forbidden('tenant:invitation:create');
  }
  if (role === 'OWNER') {
    if (await hasOwner(tx)) throw alreadyExists('The tenant has an owner already.');
    // A member may become the owner by an invitation.
  } else if (await isMember(tx, { address_digest }))
    throw alreadyExists('The address belongs to a member of the tenant already.');
  if ((await countPeople(tx)) >= PEOPLE_MAX)
    throw tooManyRecords(`The tenant has ${PEOPLE_MAX} members and invitations: delete some first.`);
  await insertInvitation(tx, row, digest);
};

/**
 * Invites an address, and sends it the link.
 * @throws invalidInput; conflict for the address of a member, and where there are PEOPLE_MAX; too_many_requests where the tenant
 * has sent too many mails; unavailable where the server sends no mail; unauthorized for a member who was removed.
 */
export const createInvitation = async (
  ctx: PeopleContext,
  work: Work,
  input: { email: string; role: GivenRole },
): Promise<InvitationRecord> => {
  const { tenant_id, actor_id } = work;
  // Members have no limits: the caller would see any number of tokens by a member that it invites.
  if (hasDailyLimit(work.caller)) throw new AppError('forbidden', 'A caller with a daily limit cannot invite people.');
  checkMail(ctx);
  const draft = await draftInvitation(ctx, { ...input, tenant_id, created_by: actor_id });
  const { row, email, mail } = draft;
  return invitations.create(ctx, work, row.id, async (tx) => {
    await writeInvitation(tx, draft, work.actor_type === 'user' ? actor_id : undefined);
    await enqueueInvitation(tx, mail, row.created_at);
    return recordOf(ctx, tenant_id, { ...row, has_link: true, modified_at: null, modified_by: null }, email);
  });
};

/**
 * Sends another link, which works for 72 hours from now, and ends all earlier links.
 * @throws notFound; forbidden without the permission to update; as createInvitation for mails.
 */
export const resendInvitation = async (ctx: PeopleContext, work: Work, id: string): Promise<InvitationRecord> => {
  if (!mayAnywhere(work, 'tenant:invitation:update')) throw forbidden('tenant:invitation:update');
  checkMail(ctx);
  const { tenant_id } = work;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { secret, digest } = newSecret(ctx);
  const modified_at = ctx.now();
  const expires_at = expiryFrom(modified_at);
  const changed = { expires_at, modified_at, modified_by: work.actor_id };
  return invitations.change(ctx, work, id, async (tx, row) => {
    const email = openEmail(ctx, keys, tenant_id, id, row.sealed);
    const address_digest = digestOfAddress(ctx, email);
    await replaceLink(tx, id, changed, digest);
    const mail = {
      kind: 'invitation' as const,
      tenant_id,
      invitation_id: id,
      email,
      address_digest,
      secret,
      expires_at,
    };
    await enqueueInvitation(tx, newMail(ctx, keys, mail), modified_at);
    return recordOf(ctx, tenant_id, { ...row, ...changed, has_link: true }, email);
  });
};
