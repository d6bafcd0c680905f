// Signs in, signs out, switches tenants, and resets a forgotten password. Each sign-in starts a new session with a new secret.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from '../../platform/base/errors.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import type { App } from '../../platform/http/app-type.ts';
import { attribute, html } from '../../platform/http/html.ts';
import { brand, fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { noSessionCookie, readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { originOf } from '../access/authenticate.ts';
import { parseAddress } from '../people/address.ts';
import { countAttempt, refuseTooMany } from '../people/attempts.ts';
import type { PeopleContext } from '../people/context.ts';
import { RESET_PATH } from '../people/mail-texts.ts';
import { askForReset, findReset, resetByLink } from '../people/password-reset.ts';
import { endSession, startSession, switchTenant } from '../people/sessions.ts';
import { signIn } from '../people/sign-in.ts';
import { beginSignIn, findSignOutUrl } from '../people/sso/flow.ts';
import { fieldProblem, invalidAttributes } from './forms.ts';
import { HOME, parseNext } from './second-factor.ts';
import { notice } from './shell.ts';
import { consoleOriginOf, leadToProvider, leavingPage } from './sso.ts';
import { type Console, SIGN_IN_PATH } from './visit.ts';

// The pages that reset a forgotten password by mail. GET changes nothing, because mail scanners open links.

const open = { config: { permission: null }, schema: { hide: true } } as const;

const FORGOTTEN_PATH = `${SIGN_IN_PATH}/forgotten`;

/** A server that sends no mail has none of these pages. */
const resetsByMail = ({ config }: Pick<PeopleContext, 'config'>): boolean => config.mail !== undefined;

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

/** Without `"cookies"`, which would delete those of every host of the site. */
const CLEARED_AT_SIGN_OUT = '"cache", "storage"';

const NOTICES = {
  wrong: 'The address or the password is wrong.',
  address: 'This is not an e-mail address.',
  no_sso: 'No tenant of this vault signs in this address by single sign-on. Use your password.',
  sso_only: 'Your tenant asks you to sign in by single sign-on.',
} as const;

/** The address is a text input: HTML's e-mail input refuses some addresses of RFC 5322. */
const signInPage = (
  ctx: Pick<PeopleContext, 'config'>,
  shown: { email: string; next: string; notice?: keyof typeof NOTICES; isReset?: boolean },
): string => {
  const isRefused = shown.notice !== undefined;
  return pageOf({
    title: 'Sign in',
    width: 'narrow',
    main: html`${brand}
<h1>Sign in</h1>
${shown.notice && html`<div class="notice bad" role="alert" id="refused">${NOTICES[shown.notice]}</div>`}
${shown.isReset === true && notice('good', 'Your password was changed. Sign in with the new one.')}
<form method="post" action="/console/sign-in" class="card">
<input type="hidden" name="next" value="${shown.next}">
<label>E-mail address<input name="email" value="${shown.email}" required maxlength="320" inputmode="email" autocapitalize="none" spellcheck="false" autocomplete="username"${attribute('autofocus', !isRefused)}></label>
<label>Password<input type="password" name="password" required maxlength="4096" autocomplete="current-password"${attribute('autofocus', isRefused)}${isRefused && html` aria-describedby="refused"`}></label>
<button>Sign in</button>
<button class="second" name="sso" value="1" formnovalidate>Single sign-on</button>
</form>
<p class="quiet">People join by the link of an invitation, which members of a tenant send. ${
      resetsByMail(ctx)
        ? html`If you forgot your password, <a href="${FORGOTTEN_PATH}">reset it by mail</a>.`
        : 'If you forgot your password, the operator of this vault can reset it.'
    }</p>`,
  });
};

export const signInPages = (scope: App, { ctx, get, post }: Console): void => {
  /** Ends the former session of the browser. */
  const endOld = (request: FastifyRequest): Promise<void> =>
    endSession(ctx, readSessionSecret(ctx, request) ?? '', originOf(request));

  scope.get(SIGN_IN_PATH, open, async (request, reply) => {
    const { next: asked, done } = request.query as { next?: unknown; done?: unknown };
    const next = parseNext(asked);
    const secret = readSessionSecret(ctx, request);
    if (secret !== undefined && (await ctx.sessions.find(secret))) return reply.redirect(next, 303);
    return sendPage(reply, 200, signInPage(ctx, { email: '', next, isReset: done === 'reset' }));
  });

  scope.post(SIGN_IN_PATH, open, async (request, reply) => {
    const form = formOf(request);
    const email = fieldOf(form, 'email');
    const next = parseNext(fieldOf(form, 'next'));
    const origin = originOf(request);
    const again = (notice: keyof typeof NOTICES) => sendPage(reply, 422, signInPage(ctx, { email, next, notice }));
    if (fieldOf(form, 'sso') !== '') {
      const address = parseAddress(email.trim());
      if (address === undefined) return again('address');
      const led = await leadToProvider(ctx, request, reply, (beginning) =>
        beginSignIn(ctx, address, { ...beginning, next }),
      );
      if (!led) return again('no_sso');
      await endOld(request);
      return sendPage(reply, led.status, led.page);
    }
    const member = await signIn(ctx, { email, password: fieldOf(form, 'password'), origin });
    if (!member) return again('wrong');
    if (member === 'sso_only') return again('sso_only');
    reply.header('set-cookie', sessionCookie(ctx, await startSession(ctx, member, origin)));
    await endOld(request);
    return reply.redirect(next, 303);
  });

  post('/console/sign-out', async ({ session, request, reply }) => {
    await endOld(request);
    reply.header('set-cookie', noSessionCookie(ctx));
    reply.header('clear-site-data', CLEARED_AT_SIGN_OUT);
    const url = await findSignOutUrl(ctx, session, `${consoleOriginOf(ctx, request)}${SIGN_IN_PATH}`);
    if (url === undefined) return { seeOther: SIGN_IN_PATH };
    return { status: 200, page: leavingPage(reply, url, 'You are signed out here. Your provider signs you out too.') };
  });

  post('/console/tenant', async ({ session, request, reply, field }) => {
    const secret = readSessionSecret(ctx, request);
    if (secret === undefined) throw notFound('tenant');
    const next = await switchTenant(ctx, { session, secret }, field('tenant_id'), originOf(request));
    reply.header('set-cookie', sessionCookie(ctx, next));
    return { seeOther: HOME };
  });

  // A GET of a form's URL leads to the console.
  for (const action of ['sign-out', 'tenant']) get(`/console/${action}`, async () => ({ seeOther: HOME }));
};
