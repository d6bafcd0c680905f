// Finds whom a question about access is about: an application or a member, with the rights that decide for them now.
import { notFound } from '../../platform/base/errors.ts';
import type { Subject } from '../access/explain-decision.ts';
import { findApplicationSubject } from '../access/subject.ts';
import type { Work } from '../access/work.ts';
import { mayReveal, revealingRules, rightsOfRole, type Role } from '../people/roles.ts';
import { findMember, listMembers } from '../people/rows/members.ts';
import type { AnswersContext } from './context.ts';

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
