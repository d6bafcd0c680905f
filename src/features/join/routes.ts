// The page behind the link of an invitation. Opening it changes nothing, for mail scanners open links; sending its form makes
// the member. A link that leads nowhere answers the same whatever became of it.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import type { App } from '../../http/app-type.ts';
import { originOf } from '../../http/authenticate.ts';
import { fieldOf, formOf, sendPage } from '../../http/pages.ts';
import { readSessionSecret, sessionCookie } from '../../http/session-cookie.ts';
import {
  acceptInvitation,
  findInvitationBeforeCaller,
  newPasswordProblem,
  type OpenInvitation,
} from '../../people/acceptance.ts';
import { countAttempt, placeOfIp, refuseTooMany } from '../../people/attempts.ts';
import { endSession, type ProvenMember, startSession } from '../../people/sessions.ts';
import { countingPassword, recordFailedSignIn } from '../../people/sign-in.ts';
import { deadLinkPage, joinedPage, joinPage, type JoinProblems, NAME_LENGTH_MAX } from './page.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

const secretOf = ({ params }: FastifyRequest): string => (params as { secret: string }).secret;

type Answers = { first_name: string; last_name: string; password: string };

const answersOf = (request: FastifyRequest): Answers => {
  const form = formOf(request);
  return {
    first_name: fieldOf(form, 'first_name').trim(),
    last_name: fieldOf(form, 'last_name').trim(),
    password: fieldOf(form, 'password'),
  };
};

const nameProblem = (name: string): string | undefined => {
  if (/\p{C}/u.test(name)) return 'Use letters and signs that can be seen.';
  return Array.from(name).length > NAME_LENGTH_MAX ? `Use ${NAME_LENGTH_MAX} characters at most.` : undefined;
};

const problemsOf = async (invitation: OpenInvitation, answers: Answers): Promise<JoinProblems> => {
  const { first_name, last_name } = answers;
  const problems: JoinProblems = {};
  const first = first_name === '' ? 'Enter your first name.' : nameProblem(first_name);
  if (first !== undefined) problems.first_name = first;
  const last = nameProblem(last_name);
  if (last !== undefined) problems.last_name = last;
  // That of an account that is there already is asked about, whatever it looks like.
  const password = invitation.isKnownUser ? undefined : await newPasswordProblem(invitation, answers);
  if (password !== undefined) problems.password = password;
  return problems;
};

const WRONG_PASSWORD = 'This is not the password of the account.';
const CAME_MEANWHILE = 'There is an account of this address now. Sign in with its password.';

export const joinRoutes = (scope: App, ctx: Context): void => {
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
    { tenant_name }: OpenInvitation,
  ): Promise<FastifyReply> => {
    if (!ctx.config.console) return sendPage(reply, 200, joinedPage(tenant_name));
    reply.header('set-cookie', sessionCookie(ctx, await startSession(ctx, member, originOf(request))));
    // Whatever session the browser had is over: nobody's goes on as another's.
    await endSession(ctx, readSessionSecret(ctx, request) ?? '', originOf(request));
    return reply.redirect('/console', 303);
  };

  /** A password of an account that is there may be guessed here as little as where one signs in. */
  const accept = async (request: FastifyRequest, { isKnownUser, email }: OpenInvitation, answers: Answers) => {
    const origin = originOf(request);
    const attempt = () => acceptInvitation(ctx, secretOf(request), answers, origin);
    if (!isKnownUser) return attempt();
    // A link that died meanwhile proves nothing: the password may not have been looked at.
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
    const answers = answersOf(request);
    const again = (status: number, shown: OpenInvitation, problems: JoinProblems, notice?: string) =>
      sendPage(reply, status, joinPage(shown, { ...answers, problems, notice }));
    const problems = await problemsOf(invitation, answers);
    if (Object.keys(problems).length > 0) return again(422, invitation, problems);
    const accepted = await accept(request, invitation, answers);
    if (accepted.kind === 'accepted') return welcome(request, reply, accepted.member, invitation);
    if (accepted.kind === 'wrong_password') return again(422, invitation, { password: WRONG_PASSWORD });
    if (accepted.kind === 'user_came_meanwhile')
      return again(409, { ...invitation, isKnownUser: true }, {}, CAME_MEANWHILE);
    return dead(request, reply);
  });
};
