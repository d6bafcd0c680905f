// Applications: the clients of the API, with their permissions, access rules and keys. A key is shown once, when it is created.
import type { ApplicationLimits, RateLimit } from '../../platform/base/application-limits.ts';
import { hostsOf } from '../../platform/egress/allowed-hosts.ts';
import { fieldErrors, invalidInput, notFound } from '../../platform/base/errors.ts';
import { type AccessRule, type AskedRule, storedRuleSchema } from './access-rule.ts';
import { findSuspended, pinBounds, type SuspendedRule } from './bound-targets.ts';
import { type Bound, shownBound } from './bounds.ts';
import { newApiKey } from './api-keys.ts';
import type { AccessContext } from './context.ts';
import { checkGrants, type Grants } from './grants.ts';
import { type EchoMode, echoModeOf } from './echo-mode.ts';
import { effectiveLimits, namedLimits } from './limits.ts';
import { type ApplicationType, isPermission, type Permission, publicPermissions } from './permissions.ts';
import { checkOrigins } from './origins.ts';
import { CREATES_PER_MINUTE } from './public-access.ts';
import { type RecordLimit, resourceOf } from './resource.ts';
import { deleteApiKeysOf, insertApiKey } from './rows/api-keys.ts';
import { findLastUses } from './rows/key-uses.ts';
import { deleteCountsOf } from './rows/limits.ts';
import {
  type ApplicationFilter,
  countApplicationRows,
  countApplications,
  deleteApplicationRow,
  findApplication,
  insertApplication,
  listApplications as listApplicationRows,
  lockApplication,
  type StoredApplication,
  updateApplication,
} from './rows/applications.ts';
import type { Work } from './work.ts';

/** An application on the wire. Undefined properties are left out. */
export type ApplicationRecord = {
  id: string;
  tenant_id: string;
  name: string;
  type: string;
  permissions: Permission[];
  rules: ShownRule[];
  /** Only in the answer to a request for one application: each costs look-ups. */
  suspended_rules?: SuspendedRule[];
  allowed_hosts: string[] | undefined;
  rate_limit: RateLimit | undefined;
  daily_reveals: number | undefined;
  daily_uses: number | undefined;
  echo_guard: EchoMode | undefined;
  /** Only public applications have this attribute and the next two. */
  allowed_origins?: string[];
  containers?: string[];
  creates_per_minute?: number;
  /** Only in the answer to the request that created it. */
  key?: string;
  /** How many keys ended. Only in the answer to the request that ended them. */
  keys_ended?: number;
  /** To the minute. Undefined where no key was used. */
  last_used_at: string | undefined;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

type ShownRule = Omit<AccessRule, 'description' | 'bound_to'> & { description?: string; bound_to?: Bound };

export type ApplicationInput = Omit<PinnedInput, 'rules'> & { rules: AskedRule[] };

/** With rules as they are stored. */
type PinnedInput = {
  name: string;
  permissions: Permission[];
  rules: AccessRule[];
  /** Undefined for any. */
  allowed_hosts?: string[] | undefined;
  echo_guard?: EchoMode | undefined;
} & ApplicationLimits &
  PublicSettings;

/** Only public applications have any. */
export type PublicSettings = {
  allowed_origins?: string[];
  containers?: string | undefined;
  creates_per_minute?: number | undefined;
};

/**
 * Applications of a tenant. A platform that has one for each of its customers fits in. A revocation signs all of them again, with
 * their keys: docs/operations/limits.md has the time.
 */
export const APPLICATIONS_MAX = 10_000;

export const applicationLimit: RecordLimit = {
  plural: 'applications',
  max: APPLICATIONS_MAX,
  count: countApplicationRows,
};

/** The message of the log row, which an auditor can search for. */
const KEY_REGENERATED = 'Application key regenerated';

const rightsOf = (row: StoredApplication) => ({
  permissions: row.permissions.filter(isPermission),
  rules: storedRuleSchema.array().parse(row.rules),
  allowed_hosts: hostsOf(row.allowed_hosts),
});

/** What an application holds, from its row. */
export const grantsOf = (ctx: Pick<AccessContext, 'config'>, row: StoredApplication): Grants => ({
  ...rightsOf(row),
  limits: effectiveLimits(ctx, namedLimits(row)),
  application_id: row.id,
});

/** What an application would hold. */
const grantsOfInput = (ctx: AccessContext, input: PinnedInput): Grants => ({
  permissions: input.permissions,
  rules: input.rules,
  allowed_hosts: input.allowed_hosts,
  limits: effectiveLimits(ctx, input),
});

const shownRule = ({ description, bound_to, ...rule }: AccessRule): ShownRule => {
  const bound = shownBound(bound_to);
  return { ...(description !== '' && { description }), ...rule, ...(bound && { bound_to: bound }) };
};

const publicSettingsOf = ({ allowed_origins, container, creates_per_minute }: StoredApplication) => ({
  allowed_origins,
  ...(container !== null && { containers: [container] }),
  creates_per_minute: creates_per_minute ?? CREATES_PER_MINUTE,
});

/** A public key is in the hands of everybody: it may create tokens, and no rule may give it more. @throws invalidInput. */
const checkPublic = (
  ctx: AccessContext,
  type: string,
  input: Pick<ApplicationInput, 'permissions'> & PublicSettings & { rules: readonly unknown[] },
): void => {
  const { permissions, rules, allowed_origins = [], containers, creates_per_minute } = input;
  const problems: [path: string, sentence: string, code: 'not_allowed'][] = [];
  if (type === 'public') {
    if (permissions.some((permission) => !publicPermissions.includes(permission)))
      problems.push([
        'permissions',
        `must be ${publicPermissions.join(', ')} only, as the application is public`,
        'not_allowed',
      ]);
    if (rules.length > 0) problems.push(['rules', 'must be left out, as the application is public', 'not_allowed']);
  } else {
    const only = 'is for public applications only';
    if (allowed_origins.length > 0) problems.push(['allowed_origins', only, 'not_allowed']);
    if (containers !== undefined) problems.push(['containers', only, 'not_allowed']);
    if (creates_per_minute !== undefined) problems.push(['creates_per_minute', only, 'not_allowed']);
  }
  if (problems.length > 0) throw invalidInput(fieldErrors(problems));
  checkOrigins(ctx.config, allowed_origins, 'allowed_origins');
};

const recordOf = (tenant_id: string, row: StoredApplication, last_used_at?: Date): ApplicationRecord => {
  const { permissions, rules, allowed_hosts } = rightsOf(row);
  const { rate_limit, daily_reveals, daily_uses } = namedLimits(row);
  return {
    id: row.id,
    tenant_id,
    name: row.name,
    type: row.type,
    permissions,
    rules: rules.map(shownRule),
    allowed_hosts,
    rate_limit,
    daily_reveals,
    daily_uses,
    echo_guard: echoModeOf(row.echo_guard),
    ...(row.type === 'public' && publicSettingsOf(row)),
    last_used_at: last_used_at?.toISOString(),
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
};

/**
 * Without repeated permissions, and with what bounds of rules name pinned as it is now: to save a rule again confirms its bound.
 * @throws invalidInput for a bound that names nothing of the tenant.
 */
const pinnedOf = async (
  ctx: AccessContext,
  { tenant_id }: Work,
  { permissions, rules, ...input }: ApplicationInput,
): Promise<PinnedInput> => {
  const asked = rules.map(({ bound_to: bound }, at) => bound && { bound, path: ['rules', at, 'bound_to'] });
  const bounds = await pinBounds(ctx, tenant_id, asked);
  return {
    ...input,
    permissions: [...new Set(permissions)],
    rules: rules.map((rule, at) => ({ ...rule, permissions: [...new Set(rule.permissions)], bound_to: bounds[at] })),
  };
};

/** An empty list where the application may send to any host, and null where it names no limit. */
const columnsOf = ({
  name,
  permissions,
  rules,
  allowed_hosts,
  rate_limit,
  daily_reveals,
  daily_uses,
  echo_guard,
  allowed_origins,
  containers,
  creates_per_minute,
}: PinnedInput) => ({
  name,
  permissions,
  rules,
  allowed_hosts: allowed_hosts ?? [],
  rate_limit: rate_limit ?? null,
  daily_reveals: daily_reveals ?? null,
  daily_uses: daily_uses ?? null,
  echo_guard: echo_guard ?? null,
  allowed_origins: allowed_origins ?? [],
  container: containers ?? null,
  creates_per_minute: creates_per_minute ?? null,
});

const modificationOf = (ctx: AccessContext, work: Work) => ({
  modified_at: ctx.now(),
  modified_by: work.actor_id,
});

const applications = resourceOf<AccessContext, StoredApplication, ApplicationFilter, ApplicationRecord>({
  entity_type: 'application',
  noun: 'application',
  find: findApplication,
  count: countApplications,
  list: listApplicationRows,
  lock: lockApplication,
  remove: async (tx, id) => {
    await deleteApplicationRow(tx, id);
    await deleteCountsOf(tx, id);
  },
  show: async (_ctx, { db, tenant_id }, rows) => {
    const uses = await findLastUses(
      db,
      rows.map(({ id }) => id),
    );
    return rows.map((row) => recordOf(tenant_id, row, uses.get(row.id)));
  },
  detail: async (ctx, { tenant_id }, row) => {
    const suspended_rules = await findSuspended(ctx, tenant_id, rightsOf(row).rules);
    return suspended_rules.length > 0 ? { suspended_rules } : {};
  },
  changeOf: (_work, id) => ({ subject: 'application', id }),
  limit: applicationLimit,
});

/** Reads one, with its suspended rules. @throws notFound, the same for an unknown id and one of another tenant. */
export const getApplication = applications.read;

/** A page, newest first. `ids`: only these; `types`: only of these; `name`: only of this name; undefined for all. */
export const listApplications = applications.list;

/** Removes an application with its keys. @throws notFound. */
export const deleteApplication = applications.delete;

/** The calling application. @throws notFound for a caller of another kind. */
export const getOwnApplication = async (ctx: AccessContext, work: Work): Promise<ApplicationRecord> => {
  if (work.actor_type !== 'application') throw notFound('application');
  return getApplication(ctx, work, work.actor_id);
};

/**
 * Creates an application with its key. @returns the application with `key`, unless it gets none by `create_key`.
 * @throws forbidden for what the caller does not hold.
 */
export const createApplication = async (
  ctx: AccessContext,
  work: Work,
  { type, create_key = true, ...input }: ApplicationInput & { type: ApplicationType; create_key?: boolean },
): Promise<ApplicationRecord> => {
  checkPublic(ctx, type, input);
  const fields = await pinnedOf(ctx, work, input);
  checkGrants(work, grantsOfInput(ctx, fields));
  const apiKey = create_key ? newApiKey(ctx) : undefined;
  const id = ctx.newUuid();
  const created = { created_at: ctx.now(), created_by: work.actor_id };
  const row = { id, type, ...columnsOf(fields), ...created };
  return applications.create(ctx, work, id, async (tx) => {
    await insertApplication(tx, row, apiKey);
    const shown = recordOf(work.tenant_id, { ...row, modified_at: null, modified_by: null });
    return apiKey ? { ...shown, key: apiKey.key.reveal() } : shown;
  });
};

/** @throws invalidInput; forbidden for what neither the caller nor the application holds. */
const checkGivenChange = (ctx: AccessContext, work: Work, row: StoredApplication, given: PinnedInput): void => {
  checkPublic(ctx, row.type, given);
  checkGrants(work, grantsOfInput(ctx, given), grantsOf(ctx, row));
};

type ChangedRights = { permissions: Permission[]; rules: AccessRule[]; allowed_hosts: string[] | undefined };

/** What is left out stays. Null removes the limit on hosts. */
type TriedRights = Partial<Pick<ApplicationInput, 'permissions' | 'rules'>> & {
  allowed_hosts?: string[] | null | undefined;
};

/** A change of rights that is only tried: what is undefined stays. @throws as a save. */
export const tryChange = async (
  ctx: AccessContext,
  work: Work,
  row: StoredApplication,
  { permissions, rules, allowed_hosts }: TriedRights,
): Promise<{ before: ChangedRights; after: ChangedRights }> => {
  const before = rightsOf(row);
  const named = { name: row.name, ...namedLimits(row), permissions: permissions ?? before.permissions };
  const hosts = { allowed_hosts: allowed_hosts === undefined ? before.allowed_hosts : (allowed_hosts ?? undefined) };
  const given = rules
    ? await pinnedOf(ctx, work, { ...named, ...hosts, rules })
    : { ...named, ...hosts, rules: before.rules };
  checkGivenChange(ctx, work, row, given);
  return { before, after: { permissions: given.permissions, rules: given.rules, ...hosts } };
};

/**
 * Replaces name, permissions, rules, hosts and limits; `type` and the key stay. The application may keep what it holds, whether the
 * caller holds it or not.
 * @throws notFound; forbidden for what neither the caller nor the application holds.
 */
export const changeApplication = async (
  ctx: AccessContext,
  work: Work,
  id: string,
  input: ApplicationInput,
): Promise<ApplicationRecord> => {
  const given = await pinnedOf(ctx, work, input);
  const fields = { ...columnsOf(given), ...modificationOf(ctx, work) };
  return applications.change(ctx, work, id, async (tx, row) => {
    checkGivenChange(ctx, work, row, given);
    await updateApplication(tx, id, fields);
    const uses = await findLastUses(tx, [id]);
    return recordOf(work.tenant_id, { ...row, ...fields }, uses.get(id));
  });
};

/**
 * Ends all keys and makes one. The caller gets all that the application holds with the new one.
 * @returns the application with `key` and `keys_ended`. @throws notFound; forbidden for what the caller does not hold.
 */
export const regenerateKey = (ctx: AccessContext, work: Work, id: string): Promise<ApplicationRecord> => {
  const apiKey = newApiKey(ctx);
  const fields = modificationOf(ctx, work);
  return applications.change(
    ctx,
    work,
    id,
    async (tx, row) => {
      checkGrants(work, grantsOf(ctx, row));
      await updateApplication(tx, id, fields);
      const keys_ended = await deleteApiKeysOf(tx, id);
      await insertApiKey(tx, id, apiKey);
      return { ...recordOf(work.tenant_id, { ...row, ...fields }), key: apiKey.key.reveal(), keys_ended };
    },
    KEY_REGENERATED,
  );
};
