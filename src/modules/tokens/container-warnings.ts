// Warns of a container that holds no token and is named by no access rule, or nearly as another: it may be a typing error.
import { LRUCache } from 'lru-cache';
import type { Work } from '../access/work.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { editDistance } from '../../platform/base/unknown-names.ts';
import { findTokenType, tokenTypeNames } from './token-types.ts';
import type { TenantQuery } from '../../platform/db/database.ts';

// Statements on containers: which hold no token, which hold one, and which the applications of a tenant name.

/** Each container costs one look into the index on containers. */
const WITHOUT_TOKENS = `SELECT wanted.container FROM unnest($2::text[]) AS wanted (container)
WHERE NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = $1::uuid AND t.container = wanted.container)`;

/** What rules and public applications name: a container by its path, or by that of one around it. */
const NAMED = `SELECT DISTINCT names.named AS container FROM applications a CROSS JOIN LATERAL (
  SELECT a.container AS named
  UNION ALL SELECT value #>> '{}' FROM jsonb_path_query(a.rules, '$[*].container') AS value
  UNION ALL SELECT value #>> '{}'
    FROM jsonb_path_query(a.rules, '$[*].conditions[*] ? (@.attribute == "container").value') AS value
) AS names WHERE a.tenant_id = $1::uuid AND names.named IS NOT NULL`;

/** Containers in use that a misspelt one is compared with. */
const COMPARED_MAX = 200;

/** The first containers in the order of their paths, each by one look into the index. */
const IN_USE = `WITH RECURSIVE used AS (
  (SELECT container FROM tokens WHERE tenant_id = $1::uuid ORDER BY container LIMIT 1)
  UNION ALL
  SELECT (SELECT t.container FROM tokens t
    WHERE t.tenant_id = $1::uuid AND t.container > used.container ORDER BY t.container LIMIT 1)
  FROM used WHERE used.container IS NOT NULL
) SELECT container FROM used WHERE container IS NOT NULL LIMIT ${COMPARED_MAX}`;

type Found = { container: string }[];

const containersIn = (rows: unknown): string[] => (rows as Found).map(({ container }) => container);

/** Those that hold no token of the tenant. */
export const findEmptyContainers = async (
  { query, tenant_id }: TenantQuery,
  containers: readonly string[],
): Promise<string[]> => containersIn(await query('find-empty-containers', WITHOUT_TOKENS, [tenant_id, containers]));

/** `named` are the containers that rules and public applications of the tenant name, `used` the first that hold tokens. */
const findKnownContainers = async ({
  query,
  tenant_id,
}: TenantQuery): Promise<{ named: string[]; used: string[] }> => ({
  named: containersIn(await query('find-named-containers', NAMED, [tenant_id])),
  used: containersIn(await query('find-used-containers', IN_USE, [tenant_id])),
});

/** Hashes of used containers of a tenant, 4 bytes each. Where a tenant has more, a new hash takes the place of another. */
const SLOTS = 2_048;
const TENANTS_MAX = 1_000;

/** Containers of one request that are looked up. Further ones are not. */
const LOOKED_UP_MAX = 20;
/** Further ones are counted. */
const LISTED_MAX = 3;

export type UsedContainers = {
  has(tenant_id: string, container: string): boolean;
  add(tenant_id: string, container: string): void;
};

/** FNV-1a. Of two containers with one hash, which are one pair in billions, the second has no warning. */
const hashOf = (container: string): number => {
  let hash = 0x811c9dc5;
  for (let at = 0; at < container.length; at += 1) hash = Math.imul(hash ^ container.charCodeAt(at), 0x01000193);
  return hash >>> 0 || 1;
};

/** What a process remembers, so that a create asks the database only for containers that are new to it. */
export const createUsedContainers = (): UsedContainers => {
  const tenants = new LRUCache<string, Uint32Array>({ max: TENANTS_MAX });
  return {
    has: (tenant_id, container) => {
      const hash = hashOf(container);
      return tenants.get(tenant_id)?.[hash % SLOTS] === hash;
    },
    add: (tenant_id, container) => {
      const used = tenants.get(tenant_id) ?? new Uint32Array(SLOTS);
      tenants.set(tenant_id, used);
      const hash = hashOf(container);
      used[hash % SLOTS] = hash;
    },
  };
};

/** What needs no name: the root, and the containers that types have by themselves. */
const standard: ReadonlySet<string> = new Set([
  '/',
  ...tokenTypeNames.map((name) => findTokenType(name)?.container ?? '/'),
]);

/** One difference is a typing error in a segment of three characters, and three are one in long segments. */
const differencesMax = (segment: string): number => Math.min(3, Math.floor(segment.length / 3));

/** Finds by how much one segment differs, if that may be a typing error. `shop-1` and `shop-2` are two names. */
const findDifferences = (container: string, known: string): number | undefined => {
  const [one, other] = [container.split('/'), known.split('/')];
  if (one.length !== other.length) return undefined;
  const [at, ...more] = one.flatMap((segment, index) => (segment === other[index] ? [] : [index]));
  if (at === undefined || more.length > 0) return undefined;
  const [segment = '', meant = ''] = [one[at], other[at]];
  if (segment.replace(/\d/g, '') === meant.replace(/\d/g, '')) return undefined;
  const differences = editDistance(segment, meant);
  return differences <= differencesMax(segment) ? differences : undefined;
};

const findMeant = (container: string, known: readonly string[]): string | undefined =>
  known
    .flatMap((path) => {
      const differences = findDifferences(container, path);
      return differences === undefined ? [] : [{ path, differences }];
    })
    .toSorted((one, other) => one.differences - other.differences)[0]?.path;

type Suspect = { container: string; isNamed: boolean; meant: string | undefined };

const listOf = (containers: readonly string[]): string =>
  containers.slice(0, LISTED_MAX).join(', ') +
  (containers.length > LISTED_MAX ? ` and ${containers.length - LISTED_MAX} more` : '');

/** A path is ASCII, as a header must be. */
const sentenceOf = (suspects: readonly Suspect[]): string => {
  const parts = [false, true].flatMap((isNamed) => {
    const containers = suspects.filter((each) => each.isNamed === isNamed).map(({ container }) => container);
    if (containers.length === 0) return [];
    const [what, them] = containers.length === 1 ? ['container', 'it'] : ['containers', 'them'];
    const why = isNamed ? '' : `, and no access rule names ${them}`;
    return [`The ${what} ${listOf(containers)} held no token before${why}.`];
  });
  const meant = suspects
    .filter((each) => each.meant !== undefined)
    .slice(0, LISTED_MAX)
    .map(({ container, meant: known }) => `Did you mean ${known} in place of ${container}?`);
  return [...parts, ...meant].join(' ');
};

/** Those that no rule names or that look misspelt. A rule names what is below its container; the root names none. */
const findSuspects = async (db: Work['db'], empty: readonly string[]): Promise<Suspect[]> => {
  const { named, used } = await findKnownContainers(db);
  const known = [...new Set([...named, ...used])];
  return empty
    .map((container) => ({
      container,
      isNamed: named.some((path) => path !== '/' && container.startsWith(path)),
      meant: named.includes(container) ? undefined : findMeant(container, known),
    }))
    .filter(({ isNamed, meant }) => !isNamed || meant !== undefined);
};

/**
 * Call before tokens are written. Asks the database only for containers that this process does not know as used.
 * @returns a sentence for `work.warn`, once the tokens are written; undefined for none, and where nobody would read it. A public
 * caller is told nothing of what a vault holds.
 */
export const findContainerWarning = async (
  { usedContainers, log }: { usedContainers: UsedContainers } & Pick<Platform, 'log'>,
  work: Work,
  containers: Iterable<string>,
): Promise<string | undefined> => {
  if (!work.canWarn || work.caller.publicAccess) return undefined;
  const { tenant_id } = work;
  const asked = new Set<string>();
  for (const container of new Set(containers)) {
    if (!standard.has(container) && !usedContainers.has(tenant_id, container)) asked.add(container);
    if (asked.size === LOOKED_UP_MAX) break;
  }
  if (asked.size === 0) return undefined;
  try {
    const empty = await findEmptyContainers(work.db, [...asked]);
    for (const container of asked) if (!empty.includes(container)) usedContainers.add(tenant_id, container);
    const suspects = empty.length === 0 ? [] : await findSuspects(work.db, empty);
    return suspects.length === 0 ? undefined : sentenceOf(suspects);
  } catch (error) {
    // The create does not depend on its warning.
    log.warn({ error }, 'containers could not be looked up for a warning');
    return undefined;
  }
};
