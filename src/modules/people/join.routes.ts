// GET and POST /join/:secret: shows and accepts an invitation. GET changes nothing, because mail scanners open links.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PeopleContext } from './context.ts';
import type { App } from '../../platform/http/app-type.ts';
import { originOf } from '../access/authenticate.ts';
import { fieldOf, formOf, sendPage } from '../../platform/http/pages.ts';
import { readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { acceptInvitation, findInvitationBeforeCaller, newPasswordProblem, type OpenInvitation } from './acceptance.ts';
import { comparedAddress } from './address.ts';
import { countAttempt, refuseTooMany, rememberPlace } from './attempts.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { endSession, type ProvenMember, startSession } from './sessions.ts';
import { countingPassword, recordFailedSignIn } from './sign-in.ts';
import { findTenantWithoutPasswords } from './sso/provider.ts';
import { deadLinkPage, joinedPage, joinPage, type JoinProblems, NAME_LENGTH_MAX } from './join.page.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

const secretOf = ({ params }: FastifyRequest): string => (params as { secret: string }).secret;

type JoinFields = { first_name: string; last_name: string; password: string };

const fieldsOf = (request: FastifyRequest): JoinFields => {
  const form = formOf(request);
  return {
    first_name: fieldOf(form, 'first_name').trim(),
    last_name: fieldOf(form, 'last_name').trim(),
    password: fieldOf(form, 'password'),
  };
};

const nameProblem = (name: string): string | undefined => {
  if (/\p{C}/u.test(name)) return 'Use visible characters only.';
  return Array.from(name).length > NAME_LENGTH_MAX ? `Use ${NAME_LENGTH_MAX} characters at most.` : undefined;
};

const problemsOf = async (invitation: OpenInvitation, fields: JoinFields): Promise<JoinProblems> => {
  const { first_name, last_name } = fields;
  const problems: JoinProblems = {};
  const first = first_name === '' ? 'Enter your first name.' : nameProblem(first_name);
  if (first !== undefined) problems.first_name = first;
  const last = nameProblem(last_name);
  if (last !== undefined) problems.last_name = last;
  // The rules are for new passwords, not for one that a user has already.
  const password = invitation.isKnownUser ? undefined : await newPasswordProblem(invitation, fields);
  if (password !== undefined) problems.password = password;
  return problems;
};

const WRONG_PASSWORD = 'This is not the password of the account.';
const CAME_MEANWHILE = 'This address has an account now. Enter its password to join.';

export const joinRoutes = (scope: App, ctx: PeopleContext): void => {
  const dead = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await countAttempt(ctx, 'dead_link_from', { place: placeOfIp(request.ip) });
    return sendPage(reply, 410, deadLinkPage(request.id, ctx.config.console));
  };

  const find = async (request: FastifyRequest): Promise<OpenInvitation | undefined> => {
    await refuseTooMany(ctx, 'dead_link_from', { place: placeOfIp(request.ip) });
    return findInvitationBeforeCaller(ctx, secretOf(request));
  };

  const welcome = async (
    request: FastifyRequest,
    reply: FastifyReply,
    member: ProvenMember,
    { tenant_name, tenant_id, email }: OpenInvitation,
  ): Promise<FastifyReply> => {
    if (!ctx.config.console) return sendPage(reply, 200, joinedPage(tenant_name));
    // The tenant accepts no passwords of the domain: the member signs in by its provider.
    if ((await findTenantWithoutPasswords(ctx, email)) === tenant_id) return reply.redirect('/console/sign-in', 303);
    reply.header('set-cookie', sessionCookie(ctx, await startSession(ctx, member, originOf(request))));
    // An earlier session of the browser ends: it may be another person's.
    await endSession(ctx, readSessionSecret(ctx, request) ?? '', originOf(request));
    return reply.redirect('/console', 303);
  };

  /** The password of an existing user is limited here as at sign-in. */
  const accept = async (request: FastifyRequest, { isKnownUser, email }: OpenInvitation, fields: JoinFields) => {
    const origin = originOf(request);
    const attempt = () => acceptInvitation(ctx, secretOf(request), fields, origin);
    if (!isKnownUser) {
      const joined = await attempt();
      // Or failures of others would lock a member out who has not signed in yet.
      if (joined.kind === 'accepted')
        await rememberPlace(ctx, { account: comparedAddress(email), place: placeOfIp(request.ip) }).catch(
          () => undefined,
        );
      return joined;
    }
    // A link that died meanwhile proves nothing: the password may not have been checked.
    const result = await countingPassword(ctx, { address: email, origin }, attempt, ({ kind }) => kind === 'accepted');
    if (result.kind === 'wrong_password') recordFailedSignIn(ctx, email, origin);
    return result;
  };

  scope.get('/join/:secret', open, async (request, reply) => {
    const invitation = await find(request);
    if (!invitation) return dead(request, reply);
    return sendPage(reply, 200, joinPage(invitation, { first_name: '', last_name: '', problems: {} }));
  });

  scope.post('/join/:secret', open, async (request, reply) => {
    const invitation = await find(request);
    if (!invitation) return dead(request, reply);
    const fields = fieldsOf(request);
    const again = (status: number, shown: OpenInvitation, problems: JoinProblems, notice?: string) =>
      sendPage(reply, status, joinPage(shown, { ...fields, problems, notice }));
    const problems = await problemsOf(invitation, fields);
    if (Object.keys(problems).length > 0) return again(422, invitation, problems);
    const accepted = await accept(request, invitation, fields);
    if (accepted.kind === 'accepted') return welcome(request, reply, accepted.member, invitation);
    if (accepted.kind === 'wrong_password') return again(422, invitation, { password: WRONG_PASSWORD });
    if (accepted.kind === 'user_came_meanwhile')
      return again(409, { ...invitation, isKnownUser: true }, {}, CAME_MEANWHILE);
    return dead(request, reply);
  });
};
