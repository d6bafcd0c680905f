// Rows of invitations and of the secrets that their links end in. Knows sealed addresses and digests only; what may be written
// is decided above, over rows that nobody else changes meanwhile.
import { AppError } from '../errors.ts';
import { finish, writeLog } from './finish.ts';
import type { NewLog } from './hot.ts';
import type { KeptAnswer } from './idempotency.ts';
import { enqueueMail, type NewMail } from './mail-outbox.ts';
import { countPeople, endLinks, hasOwner, lockTenant, type Role } from './people.ts';
import type { Query, Statements } from './statements.ts';

export type StoredInvitation = {
  id: string;
  role: Role;
  sealed: Buffer;
  expires_at: Date;
  /** Whether its newest link was not ended yet. */
  has_link: boolean;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

export type NewInvitation = {
  id: string;
  role: Role;
  address_digest: Uint8Array;
  sealed: Uint8Array;
  /** Of the secret of its link. */
  digest: Uint8Array;
  expires_at: Date;
  created_at: Date;
  created_by: string | null;
  /** The member who invites; undefined for everybody else. */
  by_user_id?: string | undefined;
};

/** What is written with an invitation. Undefined for a mail: none goes out. */
export type WithInvitation<T> = {
  mail: NewMail | undefined;
  log: NewLog;
  answer: KeptAnswer | undefined;
  result: T;
};

/** Why there is no invitation. */
export type InvitationRefusal = 'tenant_gone' | 'inviter_gone' | 'member' | 'full' | 'owned';

export type InvitationFilter = { status: 'PENDING' | 'EXPIRED' | undefined; now: Date };

/** What becomes of an invitation that is sent again, decided over its row as it is. */
export type Resent<T> = WithInvitation<T> & {
  fields: { digest: Uint8Array; expires_at: Date; modified_at: Date; modified_by: string };
};

const FROM = `FROM invitations i
LEFT JOIN invitation_secrets s ON s.tenant_id = i.tenant_id AND s.invitation_id = i.id`;

const SELECT = `SELECT i.id, i.role, i.sealed, i.expires_at, s.digest IS NOT NULL AS has_link, i.created_at, i.created_by,
  i.modified_at, i.modified_by ${FROM}`;

const FIND = `${SELECT} WHERE i.tenant_id = $1 AND i.id = $2`;

const LOCK = `${FIND} FOR UPDATE OF i`;

/** $2 is the time, $3 the status. */
const OF_STATUS = `i.tenant_id = $1 AND ($3::text IS NULL
  OR (i.expires_at > $2 AND s.digest IS NOT NULL) = ($3::text = 'PENDING'))`;

const COUNT = `SELECT count(*) AS count ${FROM} WHERE ${OF_STATUS}`;

const LIST = `${SELECT} WHERE ${OF_STATUS} ORDER BY i.created_at DESC, i.id LIMIT $4 OFFSET $5`;

const IS_MEMBER = 'SELECT FROM members WHERE tenant_id = $1 AND address_digest = $2';

const HAS_USER = 'SELECT FROM members WHERE tenant_id = $1 AND user_id = $2';

const INSERT = `
INSERT INTO invitations (tenant_id, id, role, address_digest, sealed, expires_at, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`;

const INSERT_SECRET = 'INSERT INTO invitation_secrets (digest, tenant_id, invitation_id) VALUES ($1, $2, $3)';

const UPDATE = `
UPDATE invitations SET expires_at = $3, modified_at = $4, modified_by = $5 WHERE tenant_id = $1 AND id = $2`;

const DELETE = 'DELETE FROM invitations WHERE tenant_id = $1 AND id = $2 RETURNING id';

/** @throws too_many_requests: its transaction must not stand. */
const putMail = async (on: Query, tenant_id: string, mail: NewMail | undefined, now: Date): Promise<void> => {
  const full = mail && (await enqueueMail(on, tenant_id, mail, now));
  if (full)
    throw new AppError(
      'too_many_requests',
      'This tenant has sent too many invitations in the last hour, to this address or in all.',
      full,
    );
};

export const invitationStatements = ({ query, transaction }: Statements, tenant_id: string) => ({
  /**
   * Makes an invitation with its link and its mail.
   * @param most so many people a tenant may have, invited or members.
   * @returns why not, where there is none; else the result.
   * @throws too_many_requests.
   */
  addInvitation: <T>(
    made: NewInvitation,
    most: number,
    more: WithInvitation<T>,
  ): Promise<{ refused: InvitationRefusal } | { refused?: never; result: T }> =>
    transaction(async (on) => {
      const { id, role, address_digest, digest, by_user_id } = made;
      if (!(await lockTenant(on, tenant_id))) return { refused: 'tenant_gone' };
      // Removed while the request was under way: no way back is left behind.
      if (by_user_id !== undefined && (await on('has-user', HAS_USER, [tenant_id, by_user_id])).length === 0)
        return { refused: 'inviter_gone' };
      if (role === 'OWNER' && (await hasOwner(on, tenant_id))) return { refused: 'owned' };
      const isMember = (await on('is-address-member', IS_MEMBER, [tenant_id, address_digest])).length > 0;
      // Who is a member already may become the owner.
      if (isMember && role !== 'OWNER') return { refused: 'member' };
      if ((await countPeople(on, tenant_id)) >= most) return { refused: 'full' };
      const { sealed, expires_at, created_at, created_by } = made;
      const values = [tenant_id, id, role, address_digest, sealed, expires_at, created_at, created_by];
      await on('insert-invitation', INSERT, values);
      await on('insert-invitation-secret', INSERT_SECRET, [digest, tenant_id, id]);
      await putMail(on, tenant_id, more.mail, created_at);
      return { result: await finish(on, tenant_id, more) };
    }),

  findInvitation: async (id: string): Promise<StoredInvitation | undefined> =>
    ((await query('find-invitation', FIND, [tenant_id, id])) as StoredInvitation[])[0],

  countInvitations: async ({ status, now }: InvitationFilter): Promise<number> =>
    Number(
      ((await query('count-invitations', COUNT, [tenant_id, now, status ?? null])) as [{ count: string }])[0].count,
    ),

  /** Newest first, then by id. */
  listInvitations: async (
    { status, now }: InvitationFilter,
    offset: number,
    limit: number,
  ): Promise<StoredInvitation[]> =>
    (await query('list-invitations', LIST, [tenant_id, now, status ?? null, limit, offset])) as StoredInvitation[],

  /**
   * Gives an invitation another link, and ends all it had.
   * @param plan decides over the row, which nobody else changes meanwhile.
   * @returns its result; undefined where there is no such invitation.
   * @throws too_many_requests.
   */
  resendInvitation: <T>(id: string, plan: (row: StoredInvitation) => Resent<T>): Promise<T | undefined> =>
    transaction(async (on) => {
      if (!(await lockTenant(on, tenant_id))) return undefined;
      const [row] = (await on('lock-invitation-row', LOCK, [tenant_id, id])) as StoredInvitation[];
      if (!row) return undefined;
      const { fields, ...more } = plan(row);
      await endLinks(on, tenant_id, [id]);
      const { digest, expires_at, modified_at, modified_by } = fields;
      await on('update-invitation', UPDATE, [tenant_id, id, expires_at, modified_at, modified_by]);
      await on('insert-invitation-secret', INSERT_SECRET, [digest, tenant_id, id]);
      await putMail(on, tenant_id, more.mail, modified_at);
      return finish(on, tenant_id, more);
    }),

  /** Removes an invitation with its link and the mail that was not sent. @returns whether it was there. */
  deleteInvitation: (id: string, log: NewLog): Promise<boolean> =>
    transaction(async (on) => {
      if (!(await lockTenant(on, tenant_id))) return false;
      if ((await on('delete-invitation', DELETE, [tenant_id, id])).length === 0) return false;
      await endLinks(on, tenant_id, [id]);
      await writeLog(on, tenant_id, log);
      return true;
    }),
});
