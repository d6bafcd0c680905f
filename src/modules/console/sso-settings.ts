// The page where an administrator sets the OpenID Connect provider of the tenant.
import { AppError } from '../../platform/base/errors.ts';
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { originOf } from '../access/authenticate.ts';
import { describeRole, givenRoles } from '../people/roles.ts';
import { listDomains } from '../people/sso/domains.ts';
import {
  findProviderOf,
  removeProvider,
  saveSettings,
  SETTING_LENGTH_MAX,
  type SettingsInput,
  type SsoSettings,
} from '../people/sso/provider.ts';
import { confirmed, fieldProblem, invalidAttributes } from './forms.ts';
import { addressOf, consolePage, csrfField, may, notice } from './shell.ts';
import { consoleOriginOf, redirectUriOf } from './sso.ts';
import { type Console, type Outcome, SIGN_IN_PATH, type Visit } from './visit.ts';

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
