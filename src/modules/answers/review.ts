// GET /access/review: one row for each principal of the tenant, with what it may do. It is whole, or it fails.
import { DAY_MS } from '../../platform/base/times.ts';
import { ACCESS_REVIEWED, logRow } from '../../platform/db/audit-record.ts';
import { hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { mapInSlices } from '../../platform/json/slices.ts';
import { storedRuleSchema } from '../access/access-rule.ts';
import { effectiveLimits, namedLimits } from '../access/limits.ts';
import { isPermission, type Permission } from '../access/permissions.ts';
import { describeGrants } from '../access/rights-summary.ts';
import { byPriority, type DecidingRights } from '../access/rule-walk.ts';
import { holdsAnywhere, visibilityUnder, wouldDecide } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import { findActorNames } from '../logs/names.ts';
import { mayReveal, revealingRules, rightsOfRole } from '../people/roles.ts';
import type { AnswersContext } from './context.ts';
import {
  type CountedContainer,
  countLiveSessions,
  LEAST_UUID,
  listCountedContainers,
  listReviewedApplications,
  listReviewedKeys,
  listReviewedMembers,
  listReviewedProxies,
  type LiveSessions,
  REVIEW_PAGE,
  type ReviewedApplication,
  type ReviewedKey,
  type ReviewedMember,
  type ReviewedProxy,
} from './review-rows.ts';

/** A key that was not used for so long is listed as an orphan. */
export const UNUSED_DAYS = 90;

export type Orphan = 'creator is gone' | 'unused for 90 days' | 'no authentication';

/** Times are ISO 8601. Undefined properties are left out. */
export type ReviewRow = {
  kind: 'application' | 'key' | 'member' | 'open_proxy' | 'session_creator';
  id: string;
  name: string | undefined;
  /** The type of an application, the role of a member. */
  type: string | undefined;
  /** Application of a key, an open proxy or a creator of sessions. */
  application_id: string | undefined;
  reveals: string[];
  uses: string[];
  changes: string[];
  other_permissions: string[];
  reveals_tokens: number;
  uses_tokens: number;
  changes_tokens: number;
  hosts: string[] | undefined;
  limits: string[];
  live_sessions: number | undefined;
  last_used_at: string | undefined;
  created_at: string;
  age_days: number;
  expires_at: string | undefined;
  orphan: Orphan[];
};

const CHANGES = [
  ['token:create', 'store'],
  ['token:update', 'change'],
  ['token:delete', 'delete'],
] as const satisfies readonly [Permission, string][];

const READS = ['token:read', 'token:search'] as const satisfies readonly Permission[];

type Reach = Pick<
  ReviewRow,
  'reveals' | 'uses' | 'changes' | 'other_permissions' | 'reveals_tokens' | 'uses_tokens' | 'changes_tokens'
>;

const unique = <T>(items: readonly T[]): T[] => [...new Set(items)];

const revealed = (rights: DecidingRights, permission: Permission): string[] =>
  describeGrants(rights, permission).flatMap(({ tokens, transform }) => {
    if (transform === 'reveal') return [tokens];
    return transform === 'default' ? [`${tokens} without a mask`] : [];
  });

const used = (rights: DecidingRights): string[] =>
  describeGrants(rights, 'token:use').flatMap(({ tokens, transform }) => {
    if (transform === 'redact') return [];
    return transform === 'mask' ? [`masks of ${tokens}`] : [tokens];
  });

const changed = (rights: DecidingRights): string[] =>
  CHANGES.flatMap(([permission, verb]) => describeGrants(rights, permission).map(({ tokens }) => `${verb} ${tokens}`));

/** Tokens whose ids no rule names, in the containers where something is so. */
const countWhere = (containers: readonly CountedContainer[], isSo: (container: string) => boolean): number =>
  containers.reduce((sum, { container, tokens }) => (isSo(container) ? sum + tokens : sum), 0);

/** @param asking the rights under which a member asks for a value, where they are others. */
const reachOf = (
  rights: DecidingRights,
  containers: readonly CountedContainer[],
  asking: DecidingRights = rights,
): Reach => {
  const reveals = (container: string) =>
    READS.some((permission) => {
      const transform = wouldDecide(asking, permission, { container });
      return transform !== undefined && visibilityUnder(permission, transform, true) === 'value';
    });
  return {
    reveals: unique(READS.flatMap((permission) => revealed(asking, permission))),
    uses: used(rights),
    changes: changed(rights),
    other_permissions: [...rights.permissions].filter((permission) => !permission.startsWith('token:')),
    reveals_tokens: countWhere(containers, reveals),
    uses_tokens: countWhere(containers, (container) => {
      const transform = wouldDecide(rights, 'token:use', { container });
      return transform !== undefined && transform !== 'redact' && transform !== 'mask';
    }),
    changes_tokens: countWhere(containers, (container) =>
      CHANGES.some(([permission]) => permission !== 'token:create' && wouldDecide(rights, permission, { container })),
    ),
  };
};

const NOTHING: Reach = {
  reveals: [],
  uses: [],
  changes: [],
  other_permissions: [],
  reveals_tokens: 0,
  uses_tokens: 0,
  changes_tokens: 0,
};

const rightsOf = ({ type, permissions, rules }: ReviewedApplication): DecidingRights => {
  const isPublic = type === 'public';
  const held = permissions.filter(isPermission).filter((each) => !isPublic || each === 'token:create');
  return {
    permissions: new Set(held),
    rules: isPublic ? [] : byPriority(storedRuleSchema.array().parse(rules)),
  };
};

type Reviewing = Pick<AnswersContext, 'config'> & { now: Date; containers: readonly CountedContainer[] };

const ageOf = ({ now }: Pick<Reviewing, 'now'>, created_at: Date) => ({
  created_at: created_at.toISOString(),
  age_days: Math.max(0, Math.floor((now.getTime() - created_at.getTime()) / DAY_MS)),
});

const limitsOf = (ctx: Pick<Reviewing, 'config'>, row: ReviewedApplication): string[] => {
  const { rate_limit, daily_reveals, daily_uses } = effectiveLimits(ctx, namedLimits(row)) ?? {};
  return [
    ...(rate_limit ? [`${rate_limit.requests_per_second} requests a second`] : []),
    ...(daily_reveals === undefined ? [] : [`${daily_reveals} values a day`]),
    ...(daily_uses === undefined ? [] : [`${daily_uses} uses a day`]),
  ];
};

const none = {
  type: undefined,
  application_id: undefined,
  hosts: undefined,
  limits: [],
  live_sessions: undefined,
  last_used_at: undefined,
  expires_at: undefined,
};

const latest = (times: readonly (Date | null | undefined)[]): string | undefined => {
  const known = times.filter((time) => time !== null && time !== undefined).map((time) => time.getTime());
  return known.length === 0 ? undefined : new Date(Math.max(...known)).toISOString();
};

/** What an open proxy does for everybody. */
type Lent = { reach: Reach; hosts: string[] | undefined; limits: string[] };

/** The rows of one application: its own, those of its keys, and as a creator of sessions. */
const rowsOfApplication = (
  reviewing: Reviewing,
  row: ReviewedApplication,
  { keys, sessions }: { keys: readonly ReviewedKey[]; sessions: LiveSessions | undefined },
): { rows: ReviewRow[]; lent: Lent } => {
  const rights = rightsOf(row);
  const reach = reachOf(rights, reviewing.containers);
  const hosts = hostsOf(row.allowed_hosts);
  const limits = limitsOf(reviewing, row);
  const orphan: Orphan[] = row.is_creator_gone ? ['creator is gone'] : [];
  const { id, name, type } = row;
  const own = { ...none, id, name, type, hosts, limits, ...reach, ...ageOf(reviewing, row.created_at) };
  const last_used_at = latest(keys.map((key) => key.last_used_at));
  const rows: ReviewRow[] = [{ ...own, kind: 'application', last_used_at, orphan }];
  for (const key of keys) {
    const idleMs = reviewing.now.getTime() - (key.last_used_at ?? key.created_at).getTime();
    rows.push({
      ...none,
      ...NOTHING,
      kind: 'key',
      id: key.public_id,
      name: key.name ?? undefined,
      application_id: id,
      ...ageOf(reviewing, key.created_at),
      last_used_at: key.last_used_at?.toISOString(),
      expires_at: key.expires_at?.toISOString(),
      orphan: idleMs > UNUSED_DAYS * DAY_MS ? ['unused for 90 days'] : [],
    });
  }
  if (holdsAnywhere(rights, 'session:create') || sessions)
    rows.push({
      ...none,
      ...NOTHING,
      kind: 'session_creator',
      id,
      name,
      application_id: id,
      changes: describeGrants(rights, 'token:create').map(({ tokens }) => `store ${tokens}`),
      ...ageOf(reviewing, row.created_at),
      live_sessions: sessions?.sessions ?? 0,
      last_used_at: sessions?.last_created_at.toISOString(),
      orphan,
    });
  return { rows, lent: { reach, hosts, limits } };
};

const rowOfMember = (reviewing: Reviewing, row: ReviewedMember, name: string | undefined): ReviewRow => {
  const rights = rightsOfRole(row.role);
  const asking = mayReveal(row.role) ? { ...rights, rules: revealingRules } : rights;
  return {
    ...none,
    kind: 'member',
    id: row.id,
    name,
    type: row.role,
    ...reachOf(rights, reviewing.containers, asking),
    ...ageOf(reviewing, row.created_at),
    last_used_at: row.seen_at?.toISOString(),
    orphan: [],
  };
};

/** An anonymous client of it uses tokens as its application may, and reveals none by itself. */
const rowOfProxy = (reviewing: Reviewing, row: ReviewedProxy, lent: Lent | undefined): ReviewRow => ({
  ...none,
  ...NOTHING,
  kind: 'open_proxy',
  id: row.id,
  name: row.name,
  application_id: lent === undefined ? undefined : (row.application_id ?? undefined),
  uses: lent?.reach.uses ?? [],
  uses_tokens: lent?.reach.uses_tokens ?? 0,
  hosts: hostsOf(row.allowed_hosts) ?? lent?.hosts,
  limits: lent?.limits ?? [],
  ...ageOf(reviewing, row.created_at),
  orphan: ['no authentication', ...(row.is_creator_gone ? (['creator is gone'] as const) : [])],
});

/** All pages of a list, one after another. */
async function* pagesOf<T>(list: (after: string) => Promise<T[]>, idOf: (row: T) => string, first: string) {
  for (let after = first; ;) {
    const page = await list(after);
    if (page.length > 0) yield page;
    if (page.length < REVIEW_PAGE) return;
    after = idOf(page.at(-1) as T);
  }
}

export type Review = { tenant_id: string; reviewed_at: string; containers: CountedContainer[] };

/**
 * Reads the tenant in pages, and makes the rows of each in turns of the event loop.
 * @param take takes the rows of a page. What it throws ends the review.
 * @throws unavailable; payloadTooLarge where rules and containers take more CPU time than a request may use.
 */
export const reviewAccess = async (
  ctx: AnswersContext,
  work: Work,
  take: (rows: ReviewRow[]) => void,
): Promise<Review> => {
  const { db, tenant_id } = work;
  const now = ctx.now();
  const containers: CountedContainer[] = [];
  const listContainers = (after: string) => listCountedContainers(db, after);
  for await (const page of pagesOf(listContainers, ({ container }) => container, '')) containers.push(...page);
  const reviewing: Reviewing = { config: ctx.config, now, containers };
  const inTurns = <T, R>(items: readonly T[], map: (item: T) => R) =>
    ctx.accounts.runInTurns(tenant_id, mapInSlices(items, map));

  const lentBy = new Map<string, Lent>();
  for await (const page of pagesOf(
    (after) => listReviewedApplications(db, after),
    ({ id }) => id,
    LEAST_UUID,
  )) {
    const ids = page.map(({ id }) => id);
    const [keys, sessions] = [await listReviewedKeys(db, ids), await countLiveSessions(db, ids, now)];
    const keysOf = Map.groupBy(keys, ({ application_id }) => application_id);
    const sessionsOf = new Map(sessions.map((each) => [each.created_by, each]));
    const made = await inTurns(page, (row) => {
      const of = { keys: keysOf.get(row.id) ?? [], sessions: sessionsOf.get(row.id) };
      const { rows, lent } = rowsOfApplication(reviewing, row, of);
      lentBy.set(row.id, lent);
      return rows;
    });
    take(made.flat());
  }
  for await (const page of pagesOf(
    (after) => listReviewedMembers(db, after),
    ({ id }) => id,
    LEAST_UUID,
  )) {
    const names = await findActorNames(
      ctx,
      db,
      page.map(({ user_id }) => user_id),
    );
    take(await inTurns(page, (row) => rowOfMember(reviewing, row, names.get(row.user_id))));
  }
  for await (const page of pagesOf(
    (after) => listReviewedProxies(db, after),
    ({ id }) => id,
    LEAST_UUID,
  )) {
    const open = page.filter(({ require_auth }) => !require_auth);
    take(await inTurns(open, (row) => rowOfProxy(reviewing, row, lentBy.get(row.application_id ?? ''))));
  }
  const of = { entity_type: 'tenant', entity_ids: [tenant_id] };
  await work.log([logRow(ctx, work, { operation: 'read', ...of, message: ACCESS_REVIEWED })]);
  return { tenant_id, reviewed_at: now.toISOString(), containers };
};
