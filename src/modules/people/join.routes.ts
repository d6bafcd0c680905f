// GET and POST /join/:secret: shows and accepts an invitation. GET changes nothing, because mail scanners open links.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { html, type Html } from '../../platform/http/html.ts';
import { brand, fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { acceptInvitation, findInvitationBeforeCaller, newPasswordProblem, type OpenInvitation } from './acceptance.ts';
import type { PeopleContext } from './context.ts';
import type { App } from '../../platform/http/app-type.ts';
import { originOf } from '../access/authenticate.ts';
import { readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { comparedAddress } from './address.ts';
import { countAttempt, refuseTooMany, rememberPlace } from './attempts.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { endSession, type ProvenMember, startSession } from './sessions.ts';
import { countingPassword, recordFailedSignIn } from './sign-in.ts';
import { findTenantWithoutPasswords } from './sso/provider.ts';

// The pages behind the link of an invitation: the form, and a page for links that do not work.

/** Messages beside the fields of the form. */
type JoinProblems = Partial<Record<'first_name' | 'last_name' | 'password', string>>;

type JoinForm = { first_name: string; last_name: string; problems: JoinProblems; notice?: string | undefined };

const NAME_LENGTH_MAX = 100;

const problemOf = (name: keyof JoinProblems, problems: JoinProblems): Html | undefined =>
  problems[name] === undefined ? undefined : html`<span class="problem" id="${name}-problem">${problems[name]}</span>`;

const invalidOf = (name: keyof JoinProblems, problems: JoinProblems): Html | undefined =>
  problems[name] === undefined ? undefined : html` aria-invalid="true" aria-describedby="${name}-problem" autofocus`;

const passwordField = ({ isKnownUser }: OpenInvitation, problems: JoinProblems): Html =>
  isKnownUser
    ? html`<label>Your password<small>This address has an account already. Enter its password to join.</small>
<input type="password" name="password" required autocomplete="current-password" maxlength="4096"${invalidOf('password', problems)}>${problemOf('password', problems)}</label>`
    : html`<label>Choose a password<small>12 characters at least. A few words make a good one; names, your address and common passwords are refused.</small>
<input type="password" name="password" required autocomplete="new-password" minlength="12" maxlength="256"${invalidOf('password', problems)}>${problemOf('password', problems)}</label>`;

/** The form posts to the URL of the page itself, so that the page does not contain the secret. */
const joinPage = (invitation: OpenInvitation, { first_name, last_name, problems, notice }: JoinForm): string =>
  pageOf({
    title: `Join ${invitation.tenant_name}`,
    width: 'narrow',
    main: html`${brand}
<h1>Join ${invitation.tenant_name}</h1>
<p>You are invited to become ${invitation.role === 'OWNER' ? 'the owner' : 'a member'} of ${invitation.tenant_name}, a tenant of this vault.</p>
${notice !== undefined && html`<div class="notice bad" role="alert">${notice}</div>`}
<form method="post" class="card">
<label>E-mail address<input value="${invitation.email}" readonly autocomplete="username"></label>
<label>First name<input name="first_name" value="${first_name}" required maxlength="${NAME_LENGTH_MAX}" autocomplete="given-name"${invalidOf('first_name', problems)}>${problemOf('first_name', problems)}</label>
<label>Last name<input name="last_name" value="${last_name}" maxlength="${NAME_LENGTH_MAX}" autocomplete="family-name"${invalidOf('last_name', problems)}>${problemOf('last_name', problems)}</label>
${passwordField(invitation, problems)}
<button>${invitation.isKnownUser ? 'Sign in and join' : 'Join'}</button>
</form>`,
  });

/** The same for every link that does not work. @param hasConsole whether members can sign in here. */
const deadLinkPage = (trace_id: string, hasConsole: boolean): string =>
  pageOf({
    title: 'Link no longer valid',
    width: 'narrow',
    main: html`${brand}
<h1>This link is no longer valid</h1>
<p>It was used, it has expired, or a newer one was sent. If you are a member already, ${hasConsole ? html`<a href="/console">sign in</a>` : 'you need no link'}. If not, ask the person who invited you for a new invitation.</p>
<p class="quiet">Trace <code>${trace_id}</code></p>`,
  });

/** For a server without the console. */
const joinedPage = (tenant_name: string): string =>
  pageOf({
    title: `Member of ${tenant_name}`,
    width: 'narrow',
    main: html`${brand}
<h1>You are a member of ${tenant_name}</h1>
<p>There is nothing more to do here. You may close this page.</p>`,
  });

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
