// Leads the browser to the provider of a tenant, takes it back at the callback, and asks members to prove again who they are.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { consoleUrlOf, reachedUrl } from '../../platform/config/config.ts';
import { notFound } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { html } from '../../platform/http/html.ts';
import { brand, pageOf, sendPage } from '../../platform/http/pages.ts';
import { flowCookie, readFlowSecret, readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { originOf } from '../access/authenticate.ts';
import type { PeopleContext } from '../people/context.ts';
import { endSession } from '../people/sessions.ts';
import { beginAgain, beginSignIn, finishFlow, type Begun, type FlowRefusal } from '../people/sso/flow.ts';
import { ProviderFault } from '../people/sso/provider-client.ts';
import { uuid } from './forms.ts';
import { parseNext } from './next.ts';
import { csrfField } from './shell.ts';
import { type Console, type Outcome, SIGN_IN_PATH, SSO_AGAIN_PATH, type Visit } from './visit.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

/** How browsers reach the console. */
export const consoleOriginOf = ({ config }: Pick<PeopleContext, 'config'>, request: FastifyRequest): string =>
  consoleUrlOf(config, reachedUrl(config, request));

/** What an administrator registers at the provider. */
export const redirectUriOf = (ctx: Pick<PeopleContext, 'config'>, request: FastifyRequest, tenant_id: string): string =>
  `${consoleOriginOf(ctx, request)}/console/sso/${tenant_id}/callback`;

/**
 * A page that the browser leaves at once. A redirect would not do: browsers do not let the answer to a form lead to another site
 * (form-action), and do not send `Strict` cookies while a navigation comes from one.
 */
export const leavingPage = (reply: FastifyReply, url: string, sentence: string): string => {
  reply.header('refresh', `0; url=${url}`);
  return pageOf({
    title: 'One moment',
    width: 'narrow',
    main: html`${brand}
<h1>One moment</h1>
<p>${sentence}</p>
<p><a href="${url}">Continue${url.startsWith('https:') && ` to ${new URL(url).host}`}</a></p>`,
  });
};

const sentences: Record<FlowRefusal, string> = {
  refused: 'Your provider did not sign you in, or you cancelled it there.',
  unavailable:
    'The provider of your tenant does not respond as it should. Try again in a while. If it stays so, tell your administrator.',
  not_verified: 'What the provider of your tenant sent could not be verified. Tell your administrator.',
  email: 'Your provider sent no verified e-mail address of yours. Tell your administrator.',
  address:
    'The vault takes e-mail addresses that have only ASCII characters before the @, and yours has others. Tell your administrator.',
  domain: 'The domain of your e-mail address does not belong to this tenant. Tell your administrator.',
  other_person:
    'The member with your e-mail address signs in by another account of the provider. Tell your administrator.',
  known_address:
    'Your e-mail address has an account in this vault already. Ask an administrator of the tenant for an invitation, and accept it with your password.',
  not_invited: 'You are not a member of this tenant. Ask an administrator for an invitation.',
  full: 'The tenant has as many members as it may have. Tell your administrator.',
  tampered: 'Your account cannot sign in. Tell the operator of this vault.',
  expired: 'This sign-in has expired, was finished before, or began in another browser.',
  off: 'This tenant has no single sign-on.',
  stale: 'You did not sign in again at your provider, or as someone else.',
};

const refusalPage = (reason: FlowRefusal, again: string, trace_id: string): string =>
  pageOf({
    title: 'Not signed in',
    width: 'narrow',
    main: html`${brand}
<h1>You are not signed in</h1>
<p>${sentences[reason]}</p>
<p><a class="button" href="${again}">Start again</a></p>
<p class="quiet">Trace <code>${trace_id}</code></p>`,
  });

const statusOf = (reason: FlowRefusal): number => (reason === 'unavailable' ? 502 : 403);

type Beginning = Omit<Parameters<typeof beginSignIn>[2], 'next'>;

/**
 * Begins a flow.
 * @returns the page that leads to the provider, or one that says why it cannot. Undefined where there is no provider.
 */
export const leadToProvider = async (
  ctx: PeopleContext,
  request: FastifyRequest,
  reply: FastifyReply,
  begin: (beginning: Beginning) => Promise<Begun | undefined>,
): Promise<{ status: number; page: string } | undefined> => {
  try {
    const begun = await begin({
      browser: readFlowSecret(ctx, request),
      redirectUriOf: (tenant_id) => redirectUriOf(ctx, request, tenant_id),
      origin: originOf(request),
    });
    if (!begun) return undefined;
    reply.header('set-cookie', flowCookie(ctx, begun.browser));
    return { status: 200, page: leavingPage(reply, begun.url, 'You sign in at the provider of your tenant.') };
  } catch (error) {
    if (!(error instanceof ProviderFault)) throw error;
    ctx.log.info({ trace_id: request.id, reason: error.kind, code: error.code }, 'a single sign-on could not begin');
    return { status: statusOf(error.kind), page: refusalPage(error.kind, SIGN_IN_PATH, request.id) };
  }
};

const againPage = ({ session }: Visit, next: string): string =>
  pageOf({
    title: 'Sign in again',
    width: 'narrow',
    main: html`${brand}
<h1>Sign in again</h1>
<p>This needs a sign-in of the last ten minutes. Nothing was changed yet: sign in, then do it again.</p>
<form method="post" action="${SSO_AGAIN_PATH}" class="card">${csrfField(session)}
<input type="hidden" name="next" value="${next}">
<button>Continue to your provider</button>
</form>`,
  });

export const ssoPages = (scope: App, { ctx, get, post }: Console): void => {
  scope.get('/console/sso/:tenant_id/callback', open, async (request, reply) => {
    const tenant_id = (request.params as { tenant_id: string }).tenant_id.toLowerCase();
    if (!uuid.test(tenant_id)) throw notFound('page');
    const callback = new URL(redirectUriOf(ctx, request, tenant_id));
    callback.search = new URL(request.url, callback).search;
    const browser = readFlowSecret(ctx, request);
    const result = await finishFlow(ctx, { tenant_id, callback, browser, origin: originOf(request) });
    const next = parseNext(result.next);
    if (result.kind === 'refused')
      return sendPage(
        reply,
        statusOf(result.reason),
        refusalPage(result.reason, result.isAgain ? next : SIGN_IN_PATH, request.id),
      );
    if (result.kind === 'signed_in') {
      reply.header('set-cookie', sessionCookie(ctx, result.secret));
      // One that began meanwhile. That of the first page has ended there.
      await endSession(ctx, readSessionSecret(ctx, request) ?? '', originOf(request));
    }
    return sendPage(reply, 200, leavingPage(reply, next, 'You are signed in.'));
  });

  get(SSO_AGAIN_PATH, async (visit) => {
    const next = parseNext(visit.query('next'));
    return visit.session.sso ? againPage(visit, next) : { seeOther: next };
  });

  post(SSO_AGAIN_PATH, async ({ session, request, reply, field }): Promise<Outcome> => {
    const next = parseNext(field('next'));
    const secret = readSessionSecret(ctx, request);
    const { tenant_id, email, sso } = session;
    if (!sso || secret === undefined) return { seeOther: next };
    const led = await leadToProvider(ctx, request, reply, (beginning) =>
      beginAgain(ctx, { tenant_id, email, secret }, { ...beginning, next }),
    );
    return led ?? { seeOther: next };
  });
};
