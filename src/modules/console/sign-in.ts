// Signs in, signs out and switches tenants. Each of them starts a new session with a new secret.
import type { FastifyRequest } from 'fastify';
import { notFound } from '../../platform/errors.ts';
import { originOf } from '../access/authenticate.ts';
import { attribute, html } from '../../platform/http/html.ts';
import { brand, fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { noSessionCookie, readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { endSession, startSession, switchTenant } from '../people/sessions.ts';
import { signIn } from '../people/sign-in.ts';
import type { App } from '../../platform/http/app-type.ts';
import { HOME, parseNext } from './next.ts';
import type { Console } from './visit.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

/** Without `"cookies"`, which would delete those of every host of the site. */
const CLEARED_AT_SIGN_OUT = '"cache", "storage"';

/** The address is a text input: HTML's e-mail input refuses some addresses of RFC 5322. */
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
<p class="quiet">People join by the link of an invitation, which members of a tenant send. If you forgot your password, the operator of this vault can reset it.</p>`,
  });

export const signInPages = (scope: App, { ctx, get, post }: Console): void => {
  /** Ends the former session of the browser. */
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

  // A GET of a form's URL leads to the console.
  for (const action of ['sign-out', 'tenant']) get(`/console/${action}`, async () => ({ seeOther: HOME }));
};
