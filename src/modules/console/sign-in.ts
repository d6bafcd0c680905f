// Signs in, signs out and switches tenants. Each of them starts a new session with a new secret.
import type { FastifyRequest } from 'fastify';
import { notFound } from '../../platform/base/errors.ts';
import { originOf } from '../access/authenticate.ts';
import { attribute, html } from '../../platform/http/html.ts';
import { brand, fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { noSessionCookie, readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { endSession, startSession, switchTenant } from '../people/sessions.ts';
import type { PeopleContext } from '../people/context.ts';
import { signIn } from '../people/sign-in.ts';
import type { App } from '../../platform/http/app-type.ts';
import { parseAddress } from '../people/address.ts';
import { beginSignIn, findSignOutUrl } from '../people/sso/flow.ts';
import { HOME, parseNext } from './next.ts';
import { FORGOTTEN_PATH, resetsByMail } from './password-reset.ts';
import { consoleOriginOf, leadToProvider, leavingPage } from './sso.ts';
import { notice } from './shell.ts';
import { type Console, SIGN_IN_PATH } from './visit.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

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
