// The queue of mails to send: limits per address and tenant, claims with a lease, and retries. Rows of `mail_outbox`.
import type { Database } from '../db/database.ts';
import { amongAllTenants } from '../db/named-tenants.ts';
import type { PrismaTransaction } from '../db/transaction.ts';
import { AppError } from '../base/errors.ts';

/** From one tenant to one address: more of them are not invitations any more, and are refused. */
export const MAILS_PER_ADDRESS_MAX = 10;
/**
 * To one address over all tenants: later ones wait, so that this server floods no mailbox. They are not refused: otherwise tenants
 * could block each other's invitations, and learn of each other. Three times what one tenant may send.
 */
export const MAILS_PER_MAILBOX_MAX = 30;
/** From one tenant: all tenants share the reputation of one mail server. */
export const MAILS_PER_TENANT_MAX = 200;
/** The period that the limits count over. Afterwards the sweep deletes the row of a mail that was sent. */
export const MAILS_COUNTED_MS = 3_600_000;

/** `password_reset` brings a link, `password_was_reset` says that one was used. `webhook_paused` has no link. */
export type MailKind = 'invitation' | 'password_reset' | 'password_was_reset' | 'webhook_paused';

export type NewMail = {
  id: string;
  kind: MailKind;
  /** Id of the invitation, of the user whose password is reset, or of the webhook. */
  invitation_id: string;
  address_digest: Uint8Array;
  /** The recipient and the secret of the link. */
  sealed: Uint8Array;
  /** When the link expires; the mail is not sent afterwards. */
  expires_at: Date;
  created_at: Date;
};

/** A mail that only this process sends until its lease ends. */
export type ClaimedMail = {
  tenant_id: string;
  /** The current name. */
  tenant_name: string;
  id: string;
  kind: MailKind;
  sealed: Uint8Array;
  /** Including this one. */
  attempts: number;
  expires_at: Date;
};

/** Advisory locks until the end of the transaction. The seeds keep the two kinds apart. */
const LOCK_TENANT = 'SELECT pg_advisory_xact_lock(hashtextextended($1::text, 1))::text';
const LOCK_ADDRESS = `SELECT pg_advisory_xact_lock(hashtextextended(encode($1::bytea, 'hex'), 2))::text`;

/** Skips rows that another process claims at the same time, and mails of deleted tenants. */
const CLAIM = `
WITH due AS (
  SELECT m.tenant_id, m.id, t.name FROM mail_outbox m JOIN tenants t ON t.id = m.tenant_id
  WHERE m.sealed IS NOT NULL AND m.due_at <= $1 AND m.expires_at > $1
  ORDER BY m.due_at LIMIT $3 FOR UPDATE OF m SKIP LOCKED
)
UPDATE mail_outbox m SET attempts = m.attempts + 1, due_at = $2 FROM due d
WHERE m.tenant_id = d.tenant_id AND m.id = d.id
RETURNING m.tenant_id, d.name AS tenant_name, m.id, m.kind, m.sealed, m.attempts, m.expires_at`;

/** Beyond it a count tells an operator nothing more. */
const WAITING_COUNTED_MAX = 10_000;

const COUNT_WAITING = `
SELECT count(*)::int AS count FROM (
  SELECT FROM mail_outbox WHERE sealed IS NOT NULL AND expires_at > $1 LIMIT ${WAITING_COUNTED_MAX}
) AS waiting`;

/** Adds a mail that has no limits here. @param due_at when it may be sent. */
export const addMail = async ({ prisma, tenant_id }: PrismaTransaction, mail: NewMail, due_at: Date): Promise<void> => {
  const bytes = { address_digest: Uint8Array.from(mail.address_digest), sealed: Uint8Array.from(mail.sealed) };
  await prisma.mail_outbox.create({ data: { ...mail, ...bytes, tenant_id, due_at } });
};

/**
 * Adds the mail of an invitation to the queue. Concurrent transactions do not pass the limits.
 * @throws too_many_requests where the tenant has sent too many, to this address or in all.
 */
export const enqueueInvitation = async (tx: PrismaTransaction, mail: NewMail, now: Date): Promise<void> => {
  const { tenant_id, prisma } = tx;
  const since = new Date(now.getTime() - MAILS_COUNTED_MS);
  const address_digest = Uint8Array.from(mail.address_digest);
  // Always in this order, so that transactions do not deadlock. The statements below see the rows of earlier holders.
  await tx.query('lock-mails-of-tenant', LOCK_TENANT, [tenant_id]);
  await tx.query('lock-mails-to-address', LOCK_ADDRESS, [mail.address_digest]);
  /** The last of the newest so many. While there is one, the limit is reached; it ends when this one is an hour old. */
  const findLast = (where: { address_digest?: Uint8Array<ArrayBuffer> }, most: number) =>
    prisma.mail_outbox.findFirst({
      where: { tenant_id, kind: 'invitation', created_at: { gt: since }, ...where },
      orderBy: { created_at: 'desc' },
      skip: most - 1,
      select: { created_at: true },
    });
  const last = [await findLast({}, MAILS_PER_TENANT_MAX), await findLast({ address_digest }, MAILS_PER_ADDRESS_MAX)];
  const waitsMs = last.flatMap((row) => (row ? [row.created_at.getTime() - since.getTime()] : []));
  if (waitsMs.length > 0) {
    const sentence = 'This tenant has sent too many invitations in the last hour, to this address or in all.';
    const seconds = Math.ceil(Math.max(...waitsMs) / 1000);
    const retryAfterSeconds = Math.min(Math.max(seconds, 1), MAILS_COUNTED_MS / 1000);
    throw new AppError('too_many_requests', sentence, { retryAfterSeconds });
  }
  // Over all tenants by when a mail is or was due: the next one is due an hour later.
  const lastToMailbox = await amongAllTenants(tx, () =>
    prisma.mail_outbox.findFirst({
      where: { address_digest, due_at: { gt: since } },
      orderBy: { due_at: 'desc' },
      skip: MAILS_PER_MAILBOX_MAX - 1,
      select: { due_at: true },
    }),
  );
  await addMail(tx, mail, lastToMailbox ? new Date(lastToMailbox.due_at.getTime() + MAILS_COUNTED_MS) : now);
};

/** Clears mails that were not sent, of links that were ended or have a newer one. The rows stay, to be counted. */
export const dropMails = async ({ tenant_id, prisma }: PrismaTransaction, invitation_ids: string[]): Promise<void> => {
  const where = { tenant_id, invitation_id: { in: invitation_ids }, sealed: { not: null } };
  await prisma.mail_outbox.updateMany({ where, data: { sealed: null } });
};

/** Takes due mails of all tenants. If this process dies, another one claims them after the lease. */
export const claimMails = async (
  { statements }: Pick<Database, 'statements'>,
  now: Date,
  leaseMs: number,
  limit: number,
): Promise<ClaimedMail[]> =>
  (await statements.query('claim-mails', CLAIM, [now, new Date(now.getTime() + leaseMs), limit])) as ClaimedMail[];

/** Counts mails of all tenants that wait to be sent, to WAITING_COUNTED_MAX. */
export const countWaitingMails = async ({ statements }: Pick<Database, 'statements'>, now: Date): Promise<number> => {
  const [row] = (await statements.query('count-mails', COUNT_WAITING, [now])) as { count: number }[];
  return row?.count ?? 0;
};

/** Clears a mail that was sent, or never can be. */
export const finishMail = async (
  { prisma }: Pick<Database, 'prisma'>,
  { tenant_id, id }: ClaimedMail,
): Promise<void> => {
  await prisma((client) => client.mail_outbox.updateMany({ where: { tenant_id, id }, data: { sealed: null } }));
};

/** Sets the next attempt, unless another process has claimed the mail since. */
export const postponeMail = async (
  { prisma }: Pick<Database, 'prisma'>,
  { tenant_id, id, attempts }: ClaimedMail,
  due_at: Date,
): Promise<void> => {
  await prisma((client) => client.mail_outbox.updateMany({ where: { tenant_id, id, attempts }, data: { due_at } }));
};
