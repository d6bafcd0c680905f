// The pages that reset a forgotten password by mail. GET changes nothing, because mail scanners open links.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App } from '../../platform/http/app-type.ts';
import { attribute, html } from '../../platform/http/html.ts';
import { brand, fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { originOf } from '../access/authenticate.ts';
import { countAttempt, refuseTooMany } from '../people/attempts.ts';
import type { PeopleContext } from '../people/context.ts';
import { RESET_PATH } from '../people/mail-texts.ts';
import { askForReset, findReset, resetByLink } from '../people/password-reset.ts';
import { fieldProblem, invalidAttributes } from './forms.ts';
import { SIGN_IN_PATH } from './visit.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

export const FORGOTTEN_PATH = `${SIGN_IN_PATH}/forgotten`;

/** A server that sends no mail has none of these pages. */
export const resetsByMail = ({ config }: Pick<PeopleContext, 'config'>): boolean => config.mail !== undefined;

const askPage = pageOf({
  title: 'Reset your password',
  width: 'narrow',
  main: html`${brand}
<h1>Reset your password</h1>
<p>We e-mail a link, by which you choose a new password.</p>
<form method="post" action="${FORGOTTEN_PATH}" class="card">
<label>E-mail address<input name="email" required maxlength="320" inputmode="email" autocapitalize="none" spellcheck="false" autocomplete="username"${attribute('autofocus', true)}></label>
<button>Send the mail</button>
</form>
<p class="quiet"><a href="${SIGN_IN_PATH}">Back to sign in</a></p>`,
});

/** The same for every address. */
const askedPage = pageOf({
  title: 'Check your e-mail',
  width: 'narrow',
  main: html`${brand}
<h1>Check your e-mail</h1>
<p>If the password of this address can be reset by mail, a mail is on its way. Its link works for 30 minutes. Only the newest one works, and you can ask for three an hour.</p>
<p>No mail is sent where a tenant of yours requires a second factor and you have not set one up, nor where you sign in by single sign-on alone. Ask an administrator of your tenant or the operator of this vault then.</p>
<p class="quiet"><a href="${SIGN_IN_PATH}">Back to sign in</a></p>`,
});

/** The form posts to the URL of the page itself, so that the page does not contain the secret. */
const choosePage = (email: string, problem?: string): string => {
  const problems = problem === undefined ? [] : [problem];
  return pageOf({
    title: 'Choose a new password',
    width: 'narrow',
    main: html`${brand}
<h1>Choose a new password</h1>
<form method="post" class="card">
<label>E-mail address<input value="${email}" readonly autocomplete="username"></label>
<label>New password<small>12 characters at least. A few words make a good one; names, your address and common passwords are refused.</small>
<input type="password" name="new_password" required minlength="12" maxlength="256" autocomplete="new-password"${attribute('autofocus', true)}${invalidAttributes('new-problem', problems)}>${fieldProblem('new-problem', problems)}</label>
<p class="hint">It is the password of your account in this vault, in every tenant that you are a member of. All of your sessions are signed out.</p>
<button>Change password</button>
</form>`,
  });
};

/** The same for every link that does not work. */
const deadPage = (trace_id: string): string =>
  pageOf({
    title: 'Link no longer valid',
    width: 'narrow',
    main: html`${brand}
<h1>This link is no longer valid</h1>
<p>It was used, it has expired, or a newer one was sent. <a href="${FORGOTTEN_PATH}">Ask for another one</a>.</p>
<p class="quiet">Trace <code>${trace_id}</code></p>`,
  });

const secretOf = ({ params }: FastifyRequest): string => (params as { secret: string }).secret;

/** @param scope for pages (platform/http/pages.ts). */
export const passwordResetPages = (scope: App, ctx: PeopleContext): void => {
  if (!resetsByMail(ctx)) return;

  const dead = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await countAttempt(ctx, 'dead_link_from', { place: placeOfIp(request.ip) });
    return sendPage(reply, 410, deadPage(request.id));
  };

  const refuseGuesses = (request: FastifyRequest): Promise<void> =>
    refuseTooMany(ctx, 'dead_link_from', { place: placeOfIp(request.ip) });

  scope.get(FORGOTTEN_PATH, open, async (_, reply) => sendPage(reply, 200, askPage));

  scope.post(FORGOTTEN_PATH, open, async (request, reply) => {
    await askForReset(ctx, fieldOf(formOf(request), 'email'), originOf(request));
    return sendPage(reply, 200, askedPage);
  });

  scope.get(`${RESET_PATH}/:secret`, open, async (request, reply) => {
    await refuseGuesses(request);
    const found = await findReset(ctx, secretOf(request));
    return found ? sendPage(reply, 200, choosePage(found.person.email)) : dead(request, reply);
  });

  scope.post(`${RESET_PATH}/:secret`, open, async (request, reply) => {
    await refuseGuesses(request);
    const next = fieldOf(formOf(request), 'new_password');
    const result = await resetByLink(ctx, secretOf(request), { next, origin: originOf(request) });
    if (result.kind === 'refused') return sendPage(reply, 422, choosePage(result.email, result.reason));
    return result.kind === 'dead' ? dead(request, reply) : reply.redirect(`${SIGN_IN_PATH}?done=reset`, 303);
  });
};
