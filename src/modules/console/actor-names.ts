// Finds and caches the names of applications and members, for pages that show ids of actors.
// Cached because each look-up is logged: otherwise reading the log would fill it.
import { createCache } from '../../platform/cache.ts';
import { fullName } from '../access/person.ts';
import { isSuccess, type Visit } from './visit.ts';

/** How long a page may show an old name. */
const CACHED_MS = 60_000;
const CACHED_MAX = 1_000;

/** The largest page of the API. */
const MEMBERS_MAX = 50;

/** Finds names by ids of applications and users. An id without a name belongs to a deleted record. */
export type ActorNames = (visit: Visit, ids: Iterable<string | undefined>) => Promise<ReadonlyMap<string, string>>;

type Named = { name: string };

const fetchRows = async <Row>(visit: Visit, path: string, name: string, ids: readonly string[]): Promise<Row[]> => {
  const parameters = new URLSearchParams({ size: String(MEMBERS_MAX) });
  for (const id of ids) parameters.append(name, id);
  const answer = await visit.api({ method: 'GET', url: `${path}?${parameters}` });
  // Names are optional: without one the id is shown.
  return isSuccess(answer) ? (answer.body as { data: Row[] }).data : [];
};

const lookUp = async (visit: Visit, ids: readonly string[]): Promise<Map<string, string>> => {
  const names = new Map<string, string>();
  if (ids.length === 0) return names;
  type Application = { id: string; name: string };
  type Member = { user: { id: string; email?: string; first_name?: string; last_name?: string } };
  const [applications, members] = await Promise.all([
    fetchRows<Application>(visit, '/applications', 'id', ids),
    fetchRows<Member>(visit, '/tenants/self/members', 'user_id', ids),
  ]);
  for (const { id, name } of applications) names.set(id, name);
  for (const { user } of members) {
    names.set(user.id, fullName(user) || (user.email ?? user.id));
  }
  return names;
};

export const createActorNames = (): ActorNames => {
  const cache = createCache<Named>({ max: CACHED_MAX, ttlMs: CACHED_MS, monotonicMs: () => performance.now() });
  return async (visit, ids) => {
    const { tenant_id } = visit.session;
    const names = new Map<string, string>();
    const missing: string[] = [];
    for (const id of new Set(ids)) {
      if (id === undefined) continue;
      const known = cache.recall(`${tenant_id} ${id}`);
      if (known) names.set(id, known.name);
      else if (missing.length < MEMBERS_MAX) missing.push(id);
    }
    for (const [id, name] of await lookUp(visit, missing)) {
      names.set(id, name);
      await cache.find(`${tenant_id} ${id}`, async () => ({ name }));
    }
    return names;
  };
};
