// Finds whom a question about access is about: an application or a member, with the rights that decide for them now.
import { notFound } from '../../platform/base/errors.ts';
import { type AccessRule, storedRuleSchema } from '../access/access-rule.ts';
import type { Caller } from '../access/caller.ts';
import { findApplicationAsCaller } from '../access/rows/applications.ts';
import type { DecidingRights } from '../access/rule-walk.ts';
import type { Work } from '../access/work.ts';
import { mayReveal, revealingRules, rightsOfRole, type Role } from '../people/roles.ts';
import { findMember, listMembers } from '../people/rows/members.ts';
import type { AnswersContext } from './context.ts';

export type Subject = {
  entity_type: 'application' | 'tenant_member';
  id: string;
  /** What decides, with the limits of the caller. */
  rights: DecidingRights & Pick<Caller, 'allowed_hosts' | 'limits'>;
  /** As they decide where a member asks for a value. Undefined for applications, and for a role that sees no value. */
  asking?: DecidingRights | undefined;
  /** In the order of the application's record. */
  rules: readonly AccessRule[];
  /** Of a member. */
  role?: Role;
};

/** @throws notFound, also for an application whose row was changed in the database. */
const findApplicationSubject = async (ctx: AnswersContext, work: Work, id: string): Promise<Subject> => {
  const row = await findApplicationAsCaller(work.db, id);
  if (!row) throw notFound('application');
  const rules = row.type === 'public' ? [] : storedRuleSchema.array().parse(row.rules);
  return { entity_type: 'application', id, rights: ctx.callers.callerOf(row), rules };
};

const subjectOfMember = ({ id, role }: { id: string; role: Role }): Subject => {
  const rights = rightsOfRole(role);
  const asking = mayReveal(role) ? { ...rights, rules: revealingRules } : undefined;
  return { entity_type: 'tenant_member', id, rights, asking, rules: rights.rules, role };
};

/** @throws notFound, the same for an unknown id and one of another tenant. */
export const findSubject = async (
  ctx: AnswersContext,
  work: Work,
  { application_id, member_id }: { application_id?: string | undefined; member_id?: string | undefined },
): Promise<Subject> => {
  if (application_id !== undefined) return findApplicationSubject(ctx, work, application_id);
  const isMember = member_id !== undefined || work.actor_type === 'user';
  if (!isMember) return findApplicationSubject(ctx, work, work.actor_id);
  const member = await (member_id === undefined
    ? listMembers(work.db, { user_ids: [work.actor_id] }, 0, 1).then(([own]) => own)
    : findMember(work.db, member_id));
  if (!member) throw notFound('member');
  return subjectOfMember(member);
};
