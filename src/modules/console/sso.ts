// Single sign-on: leads the browser to the provider of a tenant and takes it back at the callback; and the provider's settings.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError, notFound } from '../../platform/base/errors.ts';
import { consoleUrlOf, reachedUrl } from '../../platform/config/config.ts';
import type { App } from '../../platform/http/app-type.ts';
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { brand, pageOf, sendPage } from '../../platform/http/pages.ts';
import { flowCookie, readFlowSecret, readSessionSecret, sessionCookie } from '../../platform/http/session-cookie.ts';
import { originOf } from '../access/authenticate.ts';
import type { PeopleContext } from '../people/context.ts';
import { describeRole, givenRoles } from '../people/roles.ts';
import { endSession } from '../people/sessions.ts';
import { listDomains } from '../people/sso/domains.ts';
import { beginAgain, beginSignIn, type Begun, finishFlow, type FlowRefusal } from '../people/sso/flow.ts';
import { ProviderFault } from '../people/sso/provider-client.ts';
import {
  findProviderOf,
  removeProvider,
  saveSettings,
  SETTING_LENGTH_MAX,
  type SettingsInput,
  type SsoSettings,
} from '../people/sso/provider.ts';
import { confirmed, fieldProblem, invalidAttributes, uuid } from './forms.ts';
import { parseNext } from './second-factor.ts';
import { addressOf, consolePage, csrfField, may, notice } from './shell.ts';
import { type Console, type Outcome, SIGN_IN_PATH, SSO_AGAIN_PATH, type Visit } from './visit.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

/** How browsers reach the console. */
export const consoleOriginOf = ({ config }: Pick<PeopleContext, 'config'>, request: FastifyRequest): string =>
  consoleUrlOf(config, reachedUrl(config, request));

/** What an administrator registers at the provider. */
const redirectUriOf = (ctx: Pick<PeopleContext, 'config'>, request: FastifyRequest, tenant_id: string): string =>
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

// The page where an administrator sets the OpenID Connect provider of the tenant.

const PATH = '/console/single-sign-on';

const done = new Map([
  ['saved', 'The settings are saved.'],
  ['removed', 'The provider is removed. Members sign in by their passwords.'],
]);

type Shown = Omit<SettingsInput, 'client_secret'>;

const shownOf = (settings: SsoSettings | undefined): Shown => ({
  issuer: settings?.issuer ?? '',
  client_id: settings?.client_id ?? '',
  default_role: settings ? (settings.default_role ?? '') : 'AUDITOR',
  trusts_second_factor: settings?.trusts_second_factor ?? false,
  allows_passwords: settings?.allows_passwords ?? true,
});

type Problems = Record<string, string[]>;

const textField = (
  { name, label, hint, value }: { name: 'issuer' | 'client_id'; label: string; hint: string; value: string },
  problems: Problems,
): Html =>
  html`<label>${label}<small>${hint}</small><input name="${name}" value="${value}" required maxlength="${SETTING_LENGTH_MAX}" spellcheck="false" autocapitalize="none"${invalidAttributes(`${name}-problem`, problems[name] ?? [])}>${fieldProblem(`${name}-problem`, problems[name] ?? [])}</label>`;

const checkField = (
  { name, label, isOn }: { name: 'trusts_second_factor' | 'allows_passwords'; label: string; isOn: boolean },
  problems: Problems,
): Html =>
  html`<label class="check"><input type="checkbox" name="${name}" value="true"${attribute('checked', isOn)}${invalidAttributes(`${name}-problem`, problems[name] ?? [])}> ${label}${fieldProblem(`${name}-problem`, problems[name] ?? [])}</label>`;

const settingsForm = (visit: Visit, shown: Shown, hasProvider: boolean, problems: Problems): Html => {
  const secretProblems = problems['client_secret'] ?? [];
  const roleProblems = problems['default_role'] ?? [];
  return html`<form method="post" action="${PATH}" class="card"><h2>Provider</h2>${csrfField(visit.session)}
${textField({ name: 'issuer', label: 'Issuer', hint: 'The URL that the provider names as its issuer, such as https://login.example.com', value: shown.issuer }, problems)}
${textField({ name: 'client_id', label: 'Client id', hint: 'Of the application that you registered at the provider.', value: shown.client_id }, problems)}
<label>Client secret<small>${hasProvider ? 'Leave it empty to keep the one that is stored.' : 'It is stored encrypted, and not shown again.'}</small><input type="password" name="client_secret" maxlength="${SETTING_LENGTH_MAX}" autocomplete="off"${!hasProvider && html` required`}${invalidAttributes('client_secret-problem', secretProblems)}>${fieldProblem('client_secret-problem', secretProblems)}</label>
<label>Role of new members<select name="default_role"${invalidAttributes('default_role-problem', roleProblems)}><option value="">None: only members and invited people sign in</option>${givenRoles.map(
    (role) =>
      html`<option value="${role}"${attribute('selected', role === shown.default_role)}>${role}: ${describeRole(role)}</option>`,
  )}</select>${fieldProblem('default_role-problem', roleProblems)}</label>
${checkField({ name: 'trusts_second_factor', label: 'The provider asks for a second factor, so the vault does not.', isOn: shown.trusts_second_factor }, problems)}
${checkField({ name: 'allows_passwords', label: 'Members of the domains may also sign in by their passwords.', isOn: shown.allows_passwords }, problems)}
<button>Save</button></form>`;
};

const settingsPage = async (visit: Visit, again?: { shown: Shown; problems: Problems }): Promise<string> => {
  const { ctx, session, request } = visit;
  const { tenant_id } = session;
  const provider = await findProviderOf(ctx, tenant_id);
  const domains = await listDomains(ctx, tenant_id);
  const isDone = again ? undefined : done.get(visit.query('done'));
  return consolePage(session, {
    title: 'Single sign-on',
    section: 'People',
    main: html`<h1>Single sign-on</h1>
${isDone !== undefined && notice('good', isDone)}
<p>Members sign in at an OpenID Connect provider of your own. Their sessions are of ${session.tenant_name} alone.</p>
<section class="card"><h2>Domains</h2>
${
  domains.length === 0
    ? html`<p>No domain is bound to this tenant, so no one signs in this way yet. Ask the operator of this vault, who binds one by:</p>`
    : html`<p>People with addresses of these domains sign in: ${domains.join(', ')}. The operator of this vault binds others by:</p>`
}
<pre>strongroom admin sso bind example.com --tenant ${tenant_id}</pre></section>
<section class="card"><h2>To register at the provider</h2>
<p>Redirect URI: <code>${redirectUriOf(ctx, request, tenant_id)}</code></p>
<p>URI after sign-out: <code>${consoleOriginOf(ctx, request)}${SIGN_IN_PATH}</code></p></section>
${settingsForm(visit, again?.shown ?? shownOf(provider?.settings), provider !== undefined, again?.problems ?? {})}
${
  provider &&
  html`<section class="card"><h2>Remove</h2>${confirmed(session, {
    action: `${PATH}/remove`,
    summary: 'Remove the provider',
    question: 'Members sign in by their passwords again. Those who have none cannot sign in.',
    button: 'Remove',
  })}</section>`
}`,
  });
};

/** Not by the API: a stolen key must not decide who signs in. @throws AppError. */
const checkRole = ({ session }: Visit): void => {
  if (!may(session, 'tenant:update')) throw new AppError('forbidden', 'Your role does not change the tenant.');
};

const actorOf = ({ session, request }: Visit) =>
  ({ actor_id: session.user_id, actor_type: 'user', origin: originOf(request) }) as const;

export const ssoSettingsPages = ({ ctx, get, postAfterCode }: Console): void => {
  get(PATH, async (visit) => {
    checkRole(visit);
    return settingsPage(visit);
  });

  postAfterCode(PATH, async (submission): Promise<Outcome> => {
    checkRole(submission);
    const { session, field } = submission;
    const input: SettingsInput = {
      issuer: field('issuer').trim(),
      client_id: field('client_id').trim(),
      client_secret: field('client_secret').trim(),
      default_role: field('default_role'),
      trusts_second_factor: field('trusts_second_factor') === 'true',
      allows_passwords: field('allows_passwords') === 'true',
    };
    try {
      const { tenant_id, sso } = session;
      await saveSettings(ctx, { tenant_id, actor: actorOf(submission), hasSignedInBySso: sso !== undefined }, input);
    } catch (error) {
      if (!(error instanceof AppError) || error.errors === undefined) throw error;
      return { status: 422, page: await settingsPage(submission, { shown: input, problems: error.errors }) };
    }
    return { seeOther: addressOf(PATH, { done: 'saved' }) };
  });

  postAfterCode(`${PATH}/remove`, async (submission): Promise<Outcome> => {
    checkRole(submission);
    await removeProvider(ctx, submission.session.tenant_id, actorOf(submission));
    return { seeOther: addressOf(PATH, { done: 'removed' }) };
  });

  // A GET of a form's URL leads to the page.
  get(`${PATH}/remove`, async () => ({ seeOther: PATH }));
};
