// Finds an application as the subject of a question about access.
import { notFound } from '../../platform/base/errors.ts';
import { type AccessRule, storedRuleSchema } from './access-rule.ts';
import type { AccessContext } from './context.ts';
import type { Subject } from './explain-decision.ts';
import { findApplicationAsCaller } from './rows/applications.ts';
import type { Work } from './work.ts';

/** @param rules in the order of the record, where the rights have them by priority. */
const applicationSubject = (id: string, rights: Subject['rights'], rules: readonly AccessRule[]): Subject => ({
  entity_type: 'application',
  id,
  rights,
  rules,
});

/** With the rights of now. @throws notFound, also for an application whose row was changed in the database. */
export const findApplicationSubject = async (ctx: AccessContext, work: Work, id: string): Promise<Subject> => {
  const row = await findApplicationAsCaller(work.db, id);
  if (!row) throw notFound('application');
  const rules = row.type === 'public' ? [] : storedRuleSchema.array().parse(row.rules);
  return applicationSubject(id, ctx.callers.callerOf(row), rules);
};

/** The caller of a request, with the rights that decide about it. */
export const findOwnSubject = async (ctx: AccessContext, work: Work): Promise<Subject> =>
  work.actor_type === 'application'
    ? findApplicationSubject(ctx, work, work.actor_id)
    : applicationSubject(work.actor_id, work.caller, work.caller.rules);
