// Warns of a container that holds no token and that no access rule names: it may be a typing error.
import { LRUCache } from 'lru-cache';
import type { Work } from '../access/work.ts';
import { findUnusedContainers } from './rows/containers.ts';
import { findTokenType, tokenTypeNames } from './token-types.ts';

/** Containers of a tenant that a process remembers as used. A tenant with more asks the database, and no other does. */
const CONTAINERS_MAX = 64;
const TENANTS_MAX = 1_000;

/** Of one request. Further containers are not looked up. */
const LOOKED_UP_MAX = 20;
/** Further ones are counted. */
const LISTED_MAX = 3;

export type UsedContainers = {
  has(tenant_id: string, container: string): boolean;
  add(tenant_id: string, container: string): void;
};

export const createUsedContainers = (): UsedContainers => {
  const tenants = new LRUCache<string, LRUCache<string, true>>({ max: TENANTS_MAX });
  return {
    has: (tenant_id, container) => tenants.get(tenant_id)?.get(container) === true,
    add: (tenant_id, container) => {
      const used = tenants.get(tenant_id) ?? new LRUCache<string, true>({ max: CONTAINERS_MAX });
      tenants.set(tenant_id, used);
      used.set(container, true);
    },
  };
};

/** What needs no name: the root, and the containers that types have by themselves. */
const standard: ReadonlySet<string> = new Set([
  '/',
  ...tokenTypeNames.map((name) => findTokenType(name)?.container ?? '/'),
]);

/** A path is ASCII, as a header must be. */
const sentenceOf = (containers: readonly string[]): string => {
  const listed = containers.slice(0, LISTED_MAX).join(', ');
  const more = containers.length > LISTED_MAX ? ` and ${containers.length - LISTED_MAX} more` : '';
  return containers.length === 1
    ? `The container ${listed} held no token before, and no access rule names it.`
    : `The containers ${listed}${more} held no token before, and no access rule names them.`;
};

/**
 * Call before tokens are written. Asks the database only for containers that this process does not know as used.
 * @returns a sentence for `work.warn`, once the tokens are written; undefined for none, and where nobody would read it. A public
 * caller is told nothing of what a vault holds.
 */
export const findContainerWarning = async (
  { usedContainers }: { usedContainers: UsedContainers },
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
  const unused = await findUnusedContainers(work.db, [...asked]);
  for (const container of asked) if (!unused.includes(container)) usedContainers.add(tenant_id, container);
  return unused.length === 0 ? undefined : sentenceOf(unused);
};
