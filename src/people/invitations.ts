// Invitations: somebody is asked by mail to become a member. Whoever has the newest link may accept for 72 hours; its secret is
// kept as a digest and told to nobody but the mail. Knows how one comes and goes, not how it is accepted.
import type { Caller } from '../access/caller.ts';
import { mayAnywhere } from '../access/rules.ts';
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { addressDigest, invitationSecretDigest, randomBase62 } from '../crypto/digest.ts';
import type { TenantKeys } from '../crypto/keyring.ts';
import type { InvitationRefusal, NewInvitation, StoredInvitation } from '../db/invitations.ts';
import type { Role } from '../db/people.ts';
import { AppError, conflict, forbidden, invalidField, notFound, unauthorized } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { openText, sealText, type SealedPlace, type Sealing } from '../runtime/sealed.ts';
import { comparedAddress, parseNewAddress } from './address.ts';
import { newInvitationMail } from './mails.ts';

/** interface.md section "Limits". */
export const INVITATION_TTL_MS = 72 * 3_600_000;

/** Members and invitations of a tenant together: far more than work with one vault, few enough to be counted with each invitation. */
export const PEOPLE_MAX = 10_000;

/** 32 base62 characters: 190 bits, as of a proxy's key. */
const SECRET_LENGTH = 32;

const secretShape = new RegExp(`^[0-9A-Za-z]{${SECRET_LENGTH}}$`);

export const invitationStatuses = ['PENDING', 'EXPIRED'] as const;

export type InvitationStatus = (typeof invitationStatuses)[number];

/** As the wire knows it. What is undefined is left out. */
export type InvitationRecord = {
  id: string;
  tenant_id: string;
  email: string;
  status: InvitationStatus;
  expires_at: string;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

const invitationNotFound = () => notFound('invitation');

const placeOf = (tenant_id: string, id: string): SealedPlace => ({
  tenant_id,
  record: 'tenant_invitation',
  id,
  field: 'email',
});

/** The address that an invitation goes to. */
export const openEmail = (ctx: Sealing, keys: TenantKeys, tenant_id: string, id: string, sealed: Uint8Array): string =>
  openText(ctx, keys, placeOf(tenant_id, id), sealed);

/** The digest that an invitation is found by; undefined for a text that no secret can be. */
export const digestOfSecret = ({ pepper }: Pick<Context, 'pepper'>, secret: string): Buffer | undefined =>
  secretShape.test(secret) ? invitationSecretDigest(pepper, secret) : undefined;

const newSecret = (ctx: Context): { secret: string; digest: Buffer } => {
  const secret = randomBase62(SECRET_LENGTH, ctx.randomBytes);
  return { secret, digest: invitationSecretDigest(ctx.pepper, secret) };
};

const recordOf = (
  ctx: Context,
  tenant_id: string,
  row: Omit<StoredInvitation, 'role' | 'sealed'>,
  email: string,
): InvitationRecord => ({
  id: row.id,
  tenant_id,
  email,
  // A link that was ended stays so, whatever a clock says later.
  status: row.has_link && row.expires_at > ctx.now() ? 'PENDING' : 'EXPIRED',
  expires_at: row.expires_at.toISOString(),
  created_by: row.created_by ?? undefined,
  created_at: row.created_at.toISOString(),
  modified_by: row.modified_by ?? undefined,
  modified_at: row.modified_at?.toISOString(),
});

const logOf = (ctx: Context, caller: Caller, operation: Operation, entity_ids: string[]) =>
  logRow(ctx, caller, { operation, entity_type: 'tenant_invitation', entity_ids });

/** Nothing changes before an operator does something; whoever asks again before that need not ask often. */
const NO_MAIL_RETRY_SECONDS = 3600;

/** An invitation is nothing without its mail. @throws unavailable. */
const checkMail = ({ config }: Context): void => {
  if (config.mail !== undefined) return;
  const sentence = 'This vault sends no mail, so nobody can be invited: its operator sets SMTP_URL.';
  throw new AppError('unavailable', sentence, { retryAfterSeconds: NO_MAIL_RETRY_SECONDS });
};

const expiryFrom = (now: Date): Date => new Date(now.getTime() + INVITATION_TTL_MS);

export type DraftedInvitation = { made: NewInvitation; email: string; secret: string; keys: TenantKeys };

/** An invitation as it is to be written. @throws invalidInput for a text that is not one address. */
export const draftInvitation = async (
  ctx: Context,
  input: { tenant_id: string; email: string; role: Role; created_by: string | null },
): Promise<DraftedInvitation> => {
  const { tenant_id, role, created_by } = input;
  const email = parseNewAddress(input.email);
  if (email === undefined) throw invalidField('email', 'must be one e-mail address (RFC 5322), without a display name');
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const id = ctx.newUuid();
  const { secret, digest } = newSecret(ctx);
  const created_at = ctx.now();
  const made: NewInvitation = {
    id,
    role,
    address_digest: addressDigest(ctx.pepper, comparedAddress(email)),
    sealed: sealText(ctx, keys, placeOf(tenant_id, id), email),
    digest,
    expires_at: expiryFrom(created_at),
    created_at,
    created_by,
  };
  return { made, email, secret, keys };
};

/** The mail of a drafted invitation. */
export const mailOfDraft = (ctx: Context, tenant_id: string, { made, email, secret, keys }: DraftedInvitation) =>
  newInvitationMail(ctx, keys, {
    tenant_id,
    invitation_id: made.id,
    email,
    address_digest: made.address_digest,
    secret,
    expires_at: made.expires_at,
  });

const refusalOf: Record<InvitationRefusal, () => AppError> = {
  tenant_gone: () => notFound('tenant'),
  inviter_gone: () => unauthorized('Whoever invites is no member any more.'),
  member: () => conflict('The address belongs to a member of the tenant already.'),
  full: () => conflict(`The tenant has ${PEOPLE_MAX} members and invitations: delete some first.`),
  owned: () => conflict('The tenant has an owner already.'),
};

/**
 * Invites an address, and sends it the link.
 * @throws invalidInput; conflict for an address that is a member, and where there are PEOPLE_MAX; too_many_requests where the
 * tenant has sent too many mails, to the address or in all; unavailable where no mail is sent; unauthorized for a member who was removed
 * meanwhile.
 */
export const createInvitation = async (
  ctx: Context,
  caller: Caller,
  input: { email: string },
): Promise<InvitationRecord> => {
  const { tenant_id } = caller;
  checkMail(ctx);
  const draft = await draftInvitation(ctx, { ...input, tenant_id, role: 'ADMIN', created_by: caller.actor_id });
  const { email } = draft;
  const made = { ...draft.made, by_user_id: caller.actor_type === 'user' ? caller.actor_id : undefined };
  const row = { ...made, has_link: true, modified_at: null, modified_by: null };
  const result = recordOf(ctx, tenant_id, row, email);
  const added = await ctx.db.for(caller).addInvitation(made, PEOPLE_MAX, {
    mail: mailOfDraft(ctx, tenant_id, draft),
    log: logOf(ctx, caller, 'create', [made.id]),
    answer: caller.keep?.(result),
    result,
  });
  if (added.refused) throw refusalOf[added.refused]();
  return added.result;
};

/** Reads one. @throws notFound for an unknown and a foreign id, both alike. */
export const getInvitation = async (ctx: Context, caller: Caller, id: string): Promise<InvitationRecord> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const row = await db.findInvitation(id);
  if (!row) throw invitationNotFound();
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  await db.insertLogs([logOf(ctx, caller, 'read', [id])]);
  return recordOf(ctx, tenant_id, row, openEmail(ctx, keys, tenant_id, id, row.sealed));
};

/** A page, newest first. @param input.status only these; undefined for all. */
export const listInvitations = async (
  ctx: Context,
  caller: Caller,
  input: { status: InvitationStatus | undefined; page: PageRequest },
): Promise<Page<InvitationRecord>> => {
  const { tenant_id } = caller;
  const db = ctx.db.for(caller);
  const filter = { status: input.status, now: ctx.now() };
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { pagination, rows } = await readPage(input.page, {
    page: countThenList(
      async () => ({ total: await db.countInvitations(filter), capped: false }),
      (offset, limit) => db.listInvitations(filter, offset, limit),
    ),
  });
  const shown = rows.map(({ id }) => id);
  if (shown.length > 0) await db.insertLogs([logOf(ctx, caller, 'read', shown)]);
  const data = rows.map((row) => recordOf(ctx, tenant_id, row, openEmail(ctx, keys, tenant_id, row.id, row.sealed)));
  return { pagination, data };
};

/**
 * Sends an invitation again: another link, good for 72 hours from now, and the end of all earlier ones.
 * @throws notFound; forbidden without the permission to update; as createInvitation of mails.
 */
export const resendInvitation = async (ctx: Context, caller: Caller, id: string): Promise<InvitationRecord> => {
  if (!mayAnywhere(caller, 'tenant:invitation:update')) throw forbidden('tenant:invitation:update');
  checkMail(ctx);
  const { tenant_id } = caller;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { secret, digest } = newSecret(ctx);
  const modified_at = ctx.now();
  const fields = { digest, expires_at: expiryFrom(modified_at), modified_at, modified_by: caller.actor_id };
  const resent = await ctx.db.for(caller).resendInvitation(id, (row) => {
    const email = openEmail(ctx, keys, tenant_id, id, row.sealed);
    const result = recordOf(ctx, tenant_id, { ...row, ...fields, has_link: true }, email);
    const address_digest = addressDigest(ctx.pepper, comparedAddress(email));
    const { expires_at } = fields;
    const mail = { tenant_id, invitation_id: id, email, address_digest, secret, expires_at };
    return {
      fields,
      mail: newInvitationMail(ctx, keys, mail),
      log: logOf(ctx, caller, 'update', [id]),
      answer: caller.keep?.(result),
      result,
    };
  });
  if (!resent) throw invitationNotFound();
  return resent;
};

/** Removes an invitation, and ends its links. @throws notFound. */
export const deleteInvitation = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  const isGone = await ctx.db.for(caller).deleteInvitation(id, logOf(ctx, caller, 'delete', [id]));
  if (!isGone) throw invitationNotFound();
};
