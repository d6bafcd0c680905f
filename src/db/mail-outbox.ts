// Mails that are to go out, written in the transaction of the deed that they tell of, and given to whichever process asks
// first. Knows who gets how many an hour, by digest; not whom a mail goes to, nor what it says.
import type { Query, Statements } from './statements.ts';

/** Of one tenant to one address: a request that makes more of them is no invitation any more, and is refused. */
export const MAILS_PER_ADDRESS_MAX = 10;
/**
 * To one address over all tenants: later ones wait, so that no mailbox is filled by us. They are not refused: that would let
 * tenants block each other's invitations, and tell them of each other. Three times what one tenant may send.
 */
export const MAILS_PER_MAILBOX_MAX = 30;
/** A tenant that invites more at once waits: a mail server's good name is shared by all tenants. */
export const MAILS_PER_TENANT_MAX = 200;
/** All count over this; afterwards a mail that is sent is forgotten. */
export const MAILS_COUNTED_MS = 3_600_000;

export type NewMail = {
  id: string;
  invitation_id: string;
  address_digest: Uint8Array;
  /** To whom, and the link's secret. */
  sealed: Uint8Array;
  /** When its link is dead, and it is not worth sending. */
  expires_at: Date;
  created_at: Date;
};

/** A mail that is this process's to send until its lease ends. */
export type ClaimedMail = {
  tenant_id: string;
  /** As it is now. */
  tenant_name: string;
  id: string;
  sealed: Buffer;
  /** This one counted. */
  attempts: number;
  expires_at: Date;
};

/** Advisory locks by what is counted: the seeds keep them apart from each other. Held until the transaction ends. */
const LOCK_TENANT = 'SELECT pg_advisory_xact_lock(hashtextextended($1::text, 1))';
const LOCK_ADDRESS = `SELECT pg_advisory_xact_lock(hashtextextended(encode($1::bytea, 'hex'), 2))`;

/** The oldest of so many that count. While there is one, another would be one too many; it counts no more when it is old enough. */
const FIND_LAST_OF_TENANT = `
SELECT created_at FROM mail_outbox WHERE tenant_id = $1 AND created_at > $2
ORDER BY created_at DESC OFFSET ${MAILS_PER_TENANT_MAX - 1} LIMIT 1`;
const FIND_LAST_TO_ADDRESS = `
SELECT created_at FROM mail_outbox WHERE tenant_id = $1 AND address_digest = $2 AND created_at > $3
ORDER BY created_at DESC OFFSET ${MAILS_PER_ADDRESS_MAX - 1} LIMIT 1`;

/** The same over all tenants, by when a mail is or was due: one that waits is sent when that is over. */
const FIND_LAST_TO_MAILBOX = `
SELECT due_at FROM mail_outbox WHERE address_digest = $1 AND due_at > $2
ORDER BY due_at DESC OFFSET ${MAILS_PER_MAILBOX_MAX - 1} LIMIT 1`;

const INSERT = `
INSERT INTO mail_outbox (tenant_id, id, invitation_id, address_digest, sealed, due_at, expires_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`;

const DROP = `
UPDATE mail_outbox SET sealed = NULL WHERE tenant_id = $1 AND invitation_id = ANY($2::uuid[]) AND sealed IS NOT NULL`;

/** What another process claims at this moment is skipped. A tenant that is deleted sends nothing more. */
const CLAIM = `
WITH due AS (
  SELECT m.tenant_id, m.id, t.name FROM mail_outbox m JOIN tenants t ON t.id = m.tenant_id
  WHERE m.sealed IS NOT NULL AND m.due_at <= $1 AND m.expires_at > $1
  ORDER BY m.due_at LIMIT $3 FOR UPDATE OF m SKIP LOCKED
)
UPDATE mail_outbox m SET attempts = m.attempts + 1, due_at = $2 FROM due d
WHERE m.tenant_id = d.tenant_id AND m.id = d.id
RETURNING m.tenant_id, d.name AS tenant_name, m.id, m.sealed, m.attempts, m.expires_at`;

const FINISH = 'UPDATE mail_outbox SET sealed = NULL WHERE tenant_id = $1 AND id = $2';

/** Unless somebody else has claimed it since: then it is theirs to postpone. */
const POSTPONE = 'UPDATE mail_outbox SET due_at = $4 WHERE tenant_id = $1 AND id = $2 AND attempts = $3';

/**
 * Writes a mail in the caller's transaction, unless its tenant has sent too many, to its address or in all.
 * @returns when to come again, where nothing was written; undefined where it was. Of parallel ones, none passes the limit.
 */
export const enqueueMail = async (
  on: Query,
  tenant_id: string,
  mail: NewMail,
  now: Date,
): Promise<{ retryAfterSeconds: number } | undefined> => {
  const since = new Date(now.getTime() - MAILS_COUNTED_MS);
  // Always in this order, so that no two transactions wait for each other; counted only then, in statements that see what
  // whoever held the locks has written.
  await on('lock-mails-of-tenant', LOCK_TENANT, [tenant_id]);
  await on('lock-mails-to-address', LOCK_ADDRESS, [mail.address_digest]);
  const full = [
    ...(await on('last-mail-of-tenant', FIND_LAST_OF_TENANT, [tenant_id, since])),
    ...(await on('last-mail-to-address', FIND_LAST_TO_ADDRESS, [tenant_id, mail.address_digest, since])),
  ] as { created_at: Date }[];
  if (full.length > 0) {
    const waitMs = Math.max(...full.map(({ created_at }) => created_at.getTime() - since.getTime()));
    return { retryAfterSeconds: Math.min(Math.max(Math.ceil(waitMs / 1000), 1), MAILS_COUNTED_MS / 1000) };
  }
  const { id, invitation_id, address_digest, sealed, expires_at, created_at } = mail;
  const [last] = (await on('last-mail-to-mailbox', FIND_LAST_TO_MAILBOX, [address_digest, since])) as {
    due_at: Date;
  }[];
  const due_at = last ? new Date(last.due_at.getTime() + MAILS_COUNTED_MS) : now;
  await on('insert-mail', INSERT, [
    tenant_id,
    id,
    invitation_id,
    address_digest,
    sealed,
    due_at,
    expires_at,
    created_at,
  ]);
  return undefined;
};

/** Lets go of what was not sent for invitations that are gone, or have a newer link. The rows stay, to be counted. */
export const dropMails = async (on: Query, tenant_id: string, invitation_ids: string[]): Promise<void> => {
  await on('drop-mails', DROP, [tenant_id, invitation_ids]);
};

/** What sends mails, over all tenants. */
export const mailStatements = ({ query }: Statements) => ({
  /** Takes mails that are due, for so long: whoever stops in between leaves them to the next who asks after that. */
  claimMails: async (now: Date, leaseMs: number, limit: number): Promise<ClaimedMail[]> =>
    (await query('claim-mails', CLAIM, [now, new Date(now.getTime() + leaseMs), limit])) as ClaimedMail[],

  /** It is sent: what it said is let go. */
  finishMail: async ({ tenant_id, id }: ClaimedMail): Promise<void> => {
    await query('finish-mail', FINISH, [tenant_id, id]);
  },

  postponeMail: async ({ tenant_id, id, attempts }: ClaimedMail, due_at: Date): Promise<void> => {
    await query('postpone-mail', POSTPONE, [tenant_id, id, attempts, due_at]);
  },
});
