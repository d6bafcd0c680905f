// Who did it, by name: of applications and members that a page speaks of, asked for together. A name is remembered for a
// moment: each look is in the log, and reading the log should not be most of what it tells.
import { createBriefMemory } from '../../brief-memory.ts';
import { fullName } from './list-parts.ts';
import { isSuccess, type Visit } from './visit.ts';

/** How long a page may show a name that was changed meanwhile. */
const KNOWN_MS = 60_000;
const KNOWN_MAX = 1_000;

/** The API gives so many members on a page. */
const MEMBERS_MAX = 50;

/** Finds names by ids of applications and users. An id that is not in the answer has none any more. */
export type ActorNames = (visit: Visit, ids: Iterable<string | undefined>) => Promise<ReadonlyMap<string, string>>;

type Named = { name: string };

const asked = async <Row>(visit: Visit, path: string, name: string, ids: readonly string[]): Promise<Row[]> => {
  const parameters = new URLSearchParams({ size: String(MEMBERS_MAX) });
  for (const id of ids) parameters.append(name, id);
  const answer = await visit.api({ method: 'GET', url: `${path}?${parameters}` });
  // A name is a kindness: without it the id is shown.
  return isSuccess(answer) ? (answer.body as { data: Row[] }).data : [];
};

const lookUp = async (visit: Visit, ids: readonly string[]): Promise<Map<string, string>> => {
  const names = new Map<string, string>();
  if (ids.length === 0) return names;
  type Application = { id: string; name: string };
  type Member = { user: { id: string; email?: string; first_name?: string; last_name?: string } };
  const [applications, members] = await Promise.all([
    asked<Application>(visit, '/applications', 'id', ids),
    asked<Member>(visit, '/tenants/self/members', 'user_id', ids),
  ]);
  for (const { id, name } of applications) names.set(id, name);
  for (const { user } of members) {
    names.set(user.id, fullName(user) || (user.email ?? user.id));
  }
  return names;
};

export const createActorNames = (): ActorNames => {
  const memory = createBriefMemory<Named>({ max: KNOWN_MAX, ttlMs: KNOWN_MS, monotonicMs: () => performance.now() });
  return async (visit, ids) => {
    const { tenant_id } = visit.session;
    const names = new Map<string, string>();
    const missing: string[] = [];
    for (const id of new Set(ids)) {
      if (id === undefined) continue;
      const known = memory.recall(`${tenant_id} ${id}`);
      if (known) names.set(id, known.name);
      else if (missing.length < MEMBERS_MAX) missing.push(id);
    }
    for (const [id, name] of await lookUp(visit, missing)) {
      names.set(id, name);
      await memory.find(`${tenant_id} ${id}`, async () => ({ name }));
    }
    return names;
  };
};
