// What invitations and members share: the lock under which a tenant's people change, and the door by which an invitation
// becomes a member before anybody is known to call. Knows digests and sealed bytes, no address and no name.
import { writeLog } from './finish.ts';
import type { NewLog } from './hot.ts';
import { dropMails } from './mail-outbox.ts';
import { NOTIFY } from './notices.ts';
import type { Query, Statements } from './statements.ts';

export type Role = 'OWNER' | 'ADMIN';

/** An invitation as its link finds it, with the user of its address where there is one. */
export type LinkedInvitation = {
  tenant_id: string;
  tenant_name: string;
  id: string;
  role: Role;
  address_digest: Buffer;
  sealed: Buffer;
  expires_at: Date;
  user_id: string | null;
  password_hash: string | null;
};

/** Somebody who accepts, with all that is written of them. */
export type Acceptance = {
  digest: Uint8Array;
  tenant_id: string;
  invitation_id: string;
  address_digest: Uint8Array;
  /** `isNew`: to be made; else the one whose password was verified. */
  user: { id: string; password_hash: string; isNew: boolean };
  /** To be made, unless the user is a member already. */
  member: { id: string; sealed: Uint8Array };
  now: Date;
};

/** What came of it, for its log. */
export type Accepted = {
  member_id: string;
  /** Undefined where there was nothing to do: a member already, and in its role. */
  change: 'create' | 'update' | undefined;
  /** Other invitations to the address. */
  removed: string[];
};

export type AcceptanceOutcome =
  | { kind: 'accepted'; member_id: string }
  | { kind: 'dead' }
  /** Made, or gone, since its password was looked at. */
  | { kind: 'user_changed' };

const LOCK_TENANT = 'SELECT id FROM tenants WHERE id = $1 FOR UPDATE';

const COUNT_PEOPLE = `SELECT (SELECT count(*) FROM members WHERE tenant_id = $1)
  + (SELECT count(*) FROM invitations WHERE tenant_id = $1) AS count`;

const FIND_BY_DIGEST = `
SELECT i.tenant_id, t.name AS tenant_name, i.id, i.role, i.address_digest, i.sealed, i.expires_at, u.id AS user_id,
  u.password_hash
FROM invitation_secrets s
JOIN invitations i ON i.tenant_id = s.tenant_id AND i.id = s.invitation_id
JOIN tenants t ON t.id = i.tenant_id
LEFT JOIN users u ON u.address_digest = i.address_digest
WHERE s.digest = $1`;

const END_SECRET = 'DELETE FROM invitation_secrets WHERE digest = $1';

const LOCK_INVITATION = 'SELECT expires_at FROM invitations WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

/** Of those who accept at once one has it. */
const TAKE_SECRET = `
SELECT digest FROM invitation_secrets WHERE digest = $1 AND tenant_id = $2 AND invitation_id = $3 FOR UPDATE`;

const LOCK_USER = 'SELECT id FROM users WHERE id = $1 AND password_hash = $2 FOR UPDATE';

const INSERT_USER = `
INSERT INTO users (id, address_digest, password_hash, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (address_digest) DO NOTHING RETURNING id`;

const DELETE_INVITATIONS = `
DELETE FROM invitations WHERE tenant_id = $1 AND address_digest = $2 RETURNING id, role, expires_at`;

const DELETE_SECRETS = 'DELETE FROM invitation_secrets WHERE tenant_id = $1 AND invitation_id = ANY($2::uuid[])';

const FIND_MEMBER = 'SELECT id, role FROM members WHERE tenant_id = $1 AND user_id = $2 FOR UPDATE';

const HAS_OWNER = `SELECT FROM members WHERE tenant_id = $1 AND role = 'OWNER'`;

const INSERT_MEMBER = `
INSERT INTO members (tenant_id, id, user_id, role, address_digest, sealed, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $3)`;

const INSERT_MEMBERSHIP = 'INSERT INTO memberships (user_id, tenant_id, member_id) VALUES ($1, $2, $3)';

const MAKE_OWNER = `
UPDATE members SET role = 'OWNER', modified_at = $3, modified_by = user_id WHERE tenant_id = $1 AND id = $2`;

const SET_OWNER = 'UPDATE tenants SET owner_id = $2 WHERE id = $1';

/** What the notice of a changed or removed member says: whoever remembers its sessions forgets them. */
export const memberNotice = (member_id: string): string => `member ${member_id}`;

/**
 * Keeps everybody else from changing the people of a tenant until the transaction ends. Every deed on invitations and members
 * begins here, and locks what else it needs behind: none waits for another that waits for it.
 * @returns whether the tenant is there.
 */
export const lockTenant = async (on: Query, tenant_id: string): Promise<boolean> =>
  (await on('lock-tenant-for-people', LOCK_TENANT, [tenant_id])).length > 0;

/** Members and invitations together: one that is accepted is one of them before and after. */
export const countPeople = async (on: Query, tenant_id: string): Promise<number> =>
  Number(((await on('count-people', COUNT_PEOPLE, [tenant_id])) as [{ count: string }])[0].count);

export const hasOwner = async (on: Query, tenant_id: string): Promise<boolean> =>
  (await on('has-owner', HAS_OWNER, [tenant_id])).length > 0;

/** Ends the links of invitations that are gone, and the mails that would bring them. */
export const endLinks = async (on: Query, tenant_id: string, invitation_ids: string[]): Promise<void> => {
  if (invitation_ids.length === 0) return;
  await on('delete-invitation-secrets', DELETE_SECRETS, [tenant_id, invitation_ids]);
  await dropMails(on, tenant_id, invitation_ids);
};

type GoneInvitation = { id: string; role: Role; expires_at: Date };

/** The user's row as it is to be: made, or found as it was. */
const takeUser = async (on: Query, { user, address_digest, now }: Acceptance): Promise<boolean> => {
  const rows = user.isNew
    ? await on('insert-user', INSERT_USER, [user.id, address_digest, user.password_hash, now])
    : await on('lock-user', LOCK_USER, [user.id, user.password_hash]);
  return rows.length > 0;
};

/** @param isOwner whether an invitation said so, and nobody is. */
const putMember = async (
  on: Query,
  { tenant_id, address_digest, user, member, now }: Acceptance,
  isOwner: boolean,
): Promise<Omit<Accepted, 'removed'>> => {
  const [found] = (await on('find-member-of-user', FIND_MEMBER, [tenant_id, user.id])) as { id: string }[];
  const member_id = found?.id ?? member.id;
  if (!found) {
    const role: Role = isOwner ? 'OWNER' : 'ADMIN';
    const values = [tenant_id, member_id, user.id, role, address_digest, member.sealed, now];
    await on('insert-member', INSERT_MEMBER, values);
    await on('insert-membership', INSERT_MEMBERSHIP, [user.id, tenant_id, member_id]);
  } else if (isOwner) {
    await on('make-owner', MAKE_OWNER, [tenant_id, member_id, now]);
    await on('notify', NOTIFY, [memberNotice(member_id)]);
  }
  if (isOwner) await on('set-owner', SET_OWNER, [tenant_id, user.id]);
  return { member_id, change: found ? (isOwner ? 'update' : undefined) : 'create' };
};

export const acceptanceStatements = ({ query, transaction }: Statements) => ({
  /** The invitation of a link, of whatever tenant. */
  findInvitationBeforeCaller: async (digest: Uint8Array): Promise<LinkedInvitation | undefined> =>
    ((await query('find-invitation-by-digest', FIND_BY_DIGEST, [digest])) as LinkedInvitation[])[0],

  /** Ends a link that was found dead, so that no clock that is set back revives it. */
  endLinkBeforeCaller: async (digest: Uint8Array): Promise<void> => {
    await query('end-invitation-secret', END_SECRET, [digest]);
  },

  /**
   * Makes a member of whoever has the link, and ends all invitations of the tenant to their address. All of it or nothing; of
   * those who come at once, one.
   * @param logsOf what the log says of it.
   */
  acceptInvitationBeforeCaller: (
    acceptance: Acceptance,
    logsOf: (accepted: Accepted) => NewLog[],
  ): Promise<AcceptanceOutcome> =>
    transaction(async (on) => {
      const { tenant_id, invitation_id, address_digest, now } = acceptance;
      if (!(await lockTenant(on, tenant_id))) return { kind: 'dead' };
      const [row] = (await on('lock-invitation', LOCK_INVITATION, [tenant_id, invitation_id])) as [GoneInvitation?];
      if (!row || row.expires_at <= now) return { kind: 'dead' };
      const taken = await on('take-invitation-secret', TAKE_SECRET, [acceptance.digest, tenant_id, invitation_id]);
      if (taken.length === 0) return { kind: 'dead' };
      if (!(await takeUser(on, acceptance))) return { kind: 'user_changed' };
      const gone = (await on('delete-invitations-to-address', DELETE_INVITATIONS, [
        tenant_id,
        address_digest,
      ])) as GoneInvitation[];
      const ids = gone.map(({ id }) => id);
      await endLinks(on, tenant_id, ids);
      // Whichever of the links is used: who may become the owner is said of the address.
      const isAskedToOwn = gone.some(({ role, expires_at }) => role === 'OWNER' && expires_at > now);
      const put = await putMember(on, acceptance, isAskedToOwn && !(await hasOwner(on, tenant_id)));
      const removed = ids.filter((id) => id !== invitation_id);
      for (const log of logsOf({ ...put, removed })) await writeLog(on, tenant_id, log);
      return { kind: 'accepted', member_id: put.member_id };
    }),
});
