// Signing in to the console and out of it, and going from one tenant to another. Each begins a session under a secret of its
// own; whatever the browser brought along is never taken up.
import type { FastifyRequest } from 'fastify';
import { notFound } from '../../errors.ts';
import { originOf } from '../../http/authenticate.ts';
import { attribute, html } from '../../http/html.ts';
import { brand, fieldOf, formOf, pageOf, sendPage } from '../../http/pages.ts';
import { noSessionCookie, readSessionSecret, sessionCookie } from '../../http/session-cookie.ts';
import { endSession, startSession, switchTenant } from '../../people/sessions.ts';
import { signIn } from '../../people/sign-in.ts';
import type { App } from '../../http/app-type.ts';
import type { Console } from './visit.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

const HOME = '/console';

/** Not `"cookies"`: that would take those of every other host of the site along. */
const CLEARED_AT_SIGN_OUT = '"cache", "storage"';

const NEXT_LENGTH_MAX = 2_000;

/** Where somebody wanted to go: a page of the console and nothing else, however it is written. */
const parseNext = (text: unknown): string => {
  const isFair = typeof text === 'string' && text.length <= NEXT_LENGTH_MAX && /^\/[\x21-\x5b\x5d-\x7e]*$/.test(text);
  // As a browser reads it, from a page of a host that is nobody's.
  const url = isFair ? URL.parse(text, 'https://vault.invalid') : null;
  if (url?.host !== 'vault.invalid') return HOME;
  const isPage = url.pathname === HOME || url.pathname.startsWith(`${HOME}/`);
  return isPage && !url.pathname.startsWith(`${HOME}/sign-`) ? url.pathname + url.search : HOME;
};

/** The address is a text to the browser: what HTML takes for one leaves out some that RFC 5322 has. */
const signInPage = (shown: { email: string; next: string; isRefused: boolean }): string =>
  pageOf({
    title: 'Sign in',
    width: 'narrow',
    main: html`${brand}
<h1>Sign in</h1>
${shown.isRefused && html`<div class="notice bad" role="alert" id="refused">The address or the password is wrong.</div>`}
<form method="post" action="/console/sign-in" class="card">
<input type="hidden" name="next" value="${shown.next}">
<label>E-mail address<input name="email" value="${shown.email}" required maxlength="320" inputmode="email" autocapitalize="none" spellcheck="false" autocomplete="username"${attribute('autofocus', !shown.isRefused)}></label>
<label>Password<input type="password" name="password" required maxlength="4096" autocomplete="current-password"${attribute('autofocus', shown.isRefused)}${shown.isRefused && html` aria-describedby="refused"`}></label>
<button>Sign in</button>
</form>
<p class="quiet">People join by the link of an invitation, which members of a tenant send. If you forgot your password, whoever runs this vault can give you another.</p>`,
  });

export const signInPages = (scope: App, { ctx, get, post }: Console): void => {
  /** Ends the session that the browser had: a second one is not left lying around. */
  const endOld = (request: FastifyRequest): Promise<void> =>
    endSession(ctx, readSessionSecret(ctx, request) ?? '', originOf(request));

  scope.get('/console/sign-in', open, async (request, reply) => {
    const next = parseNext((request.query as { next?: unknown }).next);
    const secret = readSessionSecret(ctx, request);
    if (secret !== undefined && (await ctx.sessions.find(secret))) return reply.redirect(next, 303);
    return sendPage(reply, 200, signInPage({ email: '', next, isRefused: false }));
  });

  scope.post('/console/sign-in', open, async (request, reply) => {
    const form = formOf(request);
    const email = fieldOf(form, 'email');
    const next = parseNext(fieldOf(form, 'next'));
    const origin = originOf(request);
    const member = await signIn(ctx, { email, password: fieldOf(form, 'password'), origin });
    if (!member) return sendPage(reply, 422, signInPage({ email, next, isRefused: true }));
    reply.header('set-cookie', sessionCookie(ctx, await startSession(ctx, member, origin)));
    await endOld(request);
    return reply.redirect(next, 303);
  });

  post('/console/sign-out', async ({ request, reply }) => {
    await endOld(request);
    reply.header('set-cookie', noSessionCookie(ctx));
    reply.header('clear-site-data', CLEARED_AT_SIGN_OUT);
    return { seeOther: '/console/sign-in' };
  });

  post('/console/tenant', async ({ session, request, reply, field }) => {
    const secret = readSessionSecret(ctx, request);
    if (secret === undefined) throw notFound('tenant');
    const next = await switchTenant(ctx, { session, secret }, field('tenant_id'), originOf(request));
    reply.header('set-cookie', sessionCookie(ctx, next));
    return { seeOther: HOME };
  });

  // Forms answer under these addresses; who asks for one by itself wants the console.
  for (const deed of ['sign-out', 'tenant']) get(`/console/${deed}`, async () => ({ seeOther: HOME }));
};
