// Finds the names of applications and members, for pages that show ids of actors. The server looks them up for each member that
// may read the record which has the id, so that no page asks the API for what its role lacks.
import { findActorNames } from '../logs/names.ts';
import type { Visit } from './visit.ts';

/** Finds names by ids of applications and users. An id without a name belongs to a deleted record. */
export const namesOf = (
  { ctx, session }: Visit,
  ids: readonly (string | undefined)[],
): Promise<ReadonlyMap<string, string>> => {
  const wanted = new Set(ids.filter((id) => id !== undefined));
  return findActorNames(ctx, ctx.db.for(session), [...wanted]);
};
