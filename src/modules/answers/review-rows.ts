// Statements of a review of access: applications with their keys, members, open proxies, and containers, page by page.
import type { TenantQuery } from '../../platform/db/database.ts';
import type { Query } from '../../platform/db/statements.ts';
import { COUNTED_MAX } from '../../platform/base/pagination.ts';
import type { Role } from '../people/roles.ts';

/** Rows of a statement: 10,000 applications take 20 of them, and no statement holds the database for long. */
export const REVIEW_PAGE = 500;

/** Before the first id of a table. */
export const LEAST_UUID = '00000000-0000-0000-0000-000000000000';

/** @param row the alias of a table, which the statement within must not have. */
const isCreatorGone = (row: 'a' | 'p'): string => `(${row}.created_by IS NOT NULL
  AND NOT EXISTS (SELECT FROM applications c WHERE c.tenant_id = ${row}.tenant_id AND c.id = ${row}.created_by)
  AND NOT EXISTS (SELECT FROM members m WHERE m.tenant_id = ${row}.tenant_id AND m.user_id = ${row}.created_by)) AS is_creator_gone`;

export type ReviewedApplication = {
  id: string;
  name: string;
  type: string;
  permissions: string[];
  rules: unknown;
  allowed_hosts: string[];
  rate_limit: unknown;
  daily_reveals: number | null;
  daily_uses: number | null;
  created_at: Date;
  created_by: string | null;
  is_creator_gone: boolean;
};

const APPLICATIONS = `SELECT a.id, a.name, a.type, a.permissions, a.rules, a.allowed_hosts, a.rate_limit, a.daily_reveals,
  a.daily_uses, a.created_at, a.created_by, ${isCreatorGone('a')}
FROM applications a WHERE a.tenant_id = $1::uuid AND a.id > $2::uuid ORDER BY a.id LIMIT ${REVIEW_PAGE}`;

export type ReviewedKey = {
  public_id: string;
  application_id: string;
  name: string | null;
  created_at: Date;
  last_used_at: Date | null;
  expires_at: Date | null;
};

const KEYS = `SELECT public_id, application_id, name, created_at, last_used_at, expires_at FROM api_keys
WHERE tenant_id = $1::uuid AND application_id = ANY ($2::uuid[]) ORDER BY application_id, public_id`;

export type LiveSessions = { created_by: string; sessions: number; last_created_at: Date };

const SESSIONS = `SELECT created_by, count(*)::int AS sessions, max(created_at) AS last_created_at FROM collect_sessions
WHERE tenant_id = $1::uuid AND created_by = ANY ($2::uuid[]) AND expires_at > $3::timestamptz GROUP BY created_by`;

export type ReviewedMember = {
  id: string;
  user_id: string;
  role: Role;
  created_at: Date;
  /** Latest `seen_at` of the member's sign-ins that have not ended. */
  seen_at: Date | null;
};

/** Members accept for themselves: none has another creator. */
const MEMBERS = `SELECT m.id, m.user_id, m.role, m.created_at,
  (SELECT max(s.seen_at) FROM sessions s WHERE s.tenant_id = m.tenant_id AND s.member_id = m.id) AS seen_at
FROM members m WHERE m.tenant_id = $1::uuid AND m.id > $2::uuid ORDER BY m.id LIMIT ${REVIEW_PAGE}`;

export type ReviewedProxy = {
  id: string;
  name: string;
  application_id: string | null;
  allowed_hosts: string[] | null;
  require_auth: boolean;
  created_at: Date;
  is_creator_gone: boolean;
};

const PROXIES = `SELECT p.id, p.name, p.application_id, p.allowed_hosts, p.require_auth, p.created_at, ${isCreatorGone('p')}
FROM proxies p WHERE p.tenant_id = $1::uuid AND p.id > $2::uuid ORDER BY p.id LIMIT ${REVIEW_PAGE}`;

/** Up to COUNTED_MAX tokens. */
export type CountedContainer = { container: string; tokens: number };

/** Each container costs one look into the index, and its tokens as many entries of it as are counted. */
const CONTAINERS = `WITH RECURSIVE used AS (
  (SELECT container FROM tokens WHERE tenant_id = $1::uuid AND container > $2 ORDER BY container LIMIT 1)
  UNION ALL
  SELECT (SELECT t.container FROM tokens t
    WHERE t.tenant_id = $1::uuid AND t.container > used.container ORDER BY t.container LIMIT 1)
  FROM used WHERE used.container IS NOT NULL
) SELECT container, (SELECT count(*) FROM (SELECT FROM tokens t WHERE t.tenant_id = $1::uuid
    AND t.container = used.container LIMIT ${COUNTED_MAX}) AS counted)::int AS tokens
FROM used WHERE container IS NOT NULL LIMIT ${REVIEW_PAGE}`;

/** In the order of ids, after one of them. */
export const listReviewedApplications = ({ query, tenant_id }: TenantQuery, after: string) =>
  query('review-applications', APPLICATIONS, [tenant_id, after]) as Promise<ReviewedApplication[]>;

export const listReviewedKeys = ({ query, tenant_id }: TenantQuery, application_ids: readonly string[]) =>
  query('review-keys', KEYS, [tenant_id, application_ids]) as Promise<ReviewedKey[]>;

export const countLiveSessions = ({ query, tenant_id }: TenantQuery, application_ids: readonly string[], now: Date) =>
  query('review-sessions', SESSIONS, [tenant_id, application_ids, now]) as Promise<LiveSessions[]>;

export const listReviewedMembers = ({ query, tenant_id }: TenantQuery, after: string) =>
  query('review-members', MEMBERS, [tenant_id, after]) as Promise<ReviewedMember[]>;

/** Also those that need an API key: the review shows the others. */
export const listReviewedProxies = ({ query, tenant_id }: TenantQuery, after: string) =>
  query('review-proxies', PROXIES, [tenant_id, after]) as Promise<ReviewedProxy[]>;

/** In the order of their paths, after one of them. */
export const listCountedContainers = ({ query, tenant_id }: TenantQuery, after: string) =>
  query('review-containers', CONTAINERS, [tenant_id, after]) as Promise<CountedContainer[]>;

/** A tenant that is younger has time left. */
const OVERDUE = `SELECT count(*)::int AS tenants, count(*) FILTER (WHERE coalesce(
  (SELECT l.created_at FROM audit_log l WHERE l.tenant_id = t.id AND l.entity_type = 'access_review' AND l.outcome = 'success'
   ORDER BY l.id DESC LIMIT 1), t.created_at) < $1::timestamptz)::int AS overdue FROM tenants t`;

/** For the operator: how many tenants there are, and of how many no review was attested since a time. */
export const countOverdueReviews = async (query: Query, since: Date): Promise<{ tenants: number; overdue: number }> => {
  const [found] = await query(undefined, OVERDUE, [since]);
  return found as { tenants: number; overdue: number };
};
