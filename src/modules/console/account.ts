// The account page: the member's devices of the second factor, passkeys and password.
import { html, type Html } from '../../platform/http/html.ts';
import { qrCode } from '../../platform/http/qr-code.ts';
import { sessionCookie } from '../../platform/http/session-cookie.ts';
import { originOf } from '../access/authenticate.ts';
import { type Devices, readDevices, removeDevice, removePasskey } from '../people/devices.ts';
import { type ListedPasskey, passkeyPlaceOf } from '../people/passkey-records.ts';
import {
  addPasskey,
  offerPasskey,
  PASSKEY_NAME_LENGTH_MAX,
  passkeyNameProblem,
  PASSKEYS_MAX,
} from '../people/passkeys.ts';
import { changePassword } from '../people/passwords.ts';
import { confirmDevice, offerDevice } from '../people/second-factor.ts';
import { confirmed, fieldProblem, idOf, invalidAttributes, passwordField, WRONG_PASSWORD } from './forms.ts';
import { isolated } from './list-parts.ts';
import { passkeyForm, passkeyRefusals, visitorOf } from './second-factor.ts';
import { consolePage, csrfField, notice, recordsTable, time } from './shell.ts';
import { ACCOUNT_PATH, type Console, type Outcome, SIGN_IN_PATH, type Submission, type Visit } from './visit.ts';

// The passkeys on the account page: the list, adding one after the password, and removing one.

const PASSKEYS_PATH = `${ACCOUNT_PATH}/passkeys`;

/** What was typed, and what was wrong with it. */
type PasskeyProblems = { name?: string; nameProblem?: string; passwordProblem?: string };

const listed = (problem: string | undefined): string[] => (problem === undefined ? [] : [problem]);

/** The passkeys of a member. @param isLast whether the only device is a passkey. */
const passkeysTable = (visit: Visit, passkeys: readonly ListedPasskey[], isLast: boolean): Html => {
  const { rp_id } = passkeyPlaceOf(visit.ctx.config, visit.request.host) ?? {};
  return recordsTable('Passkeys', passkeys, [
    {
      label: 'Passkey',
      cell: (passkey) =>
        html`${isolated(passkey.name)}${passkey.rp_id !== rp_id && html` <span class="quiet">for ${passkey.rp_id} only</span>`}`,
    },
    { label: 'Added', cell: ({ created_at }) => time(created_at.toISOString()) },
    { label: 'Last used', cell: ({ used_at }) => time(used_at?.toISOString()) ?? 'never' },
    {
      label: '',
      cell: ({ id, name }) =>
        confirmed(visit.session, {
          action: `${PASSKEYS_PATH}/${id}/remove`,
          summary: 'Remove',
          question: isLast
            ? 'It is your last device: the recovery codes no longer work either.'
            : 'It no longer signs you in. Remove it on the device too.',
          button: `Remove ${name}`,
        }),
    },
  ]);
};

/** Asks for a name and the password before a passkey is made. */
const passkeyStart = (visit: Visit, problems: PasskeyProblems, count: number): Html => {
  if (!passkeyPlaceOf(visit.ctx.config, visit.request.host))
    return html`<section class="card"><h2>Add a passkey</h2><p class="quiet">Passkeys work at the public address of this vault over https, or at http://localhost. The operator sets the address by PUBLIC_URL.</p></section>`;
  if (count >= PASSKEYS_MAX)
    return html`<section class="card"><h2>Add a passkey</h2><p class="quiet">You have ${PASSKEYS_MAX} passkeys, as many as possible.</p></section>`;
  const [name, password] = [listed(problems.nameProblem), listed(problems.passwordProblem)];
  return html`<form method="post" action="${PASSKEYS_PATH}/new" class="card"><h2>Add a passkey</h2>${csrfField(visit.session)}
<p>A passkey is kept by this device, a phone, a password manager or a security key. It only works on this site, so a phishing page cannot use it.</p>
<label>Name of the passkey<small>Such as the device that keeps it.</small>
<input name="name" value="${problems.name}" required maxlength="${PASSKEY_NAME_LENGTH_MAX}" autocomplete="off"${invalidAttributes('passkey-name-problem', name)}>${fieldProblem('passkey-name-problem', name)}</label>
${passwordField(visit, 'passkey-password-problem', password)}
<button>Continue</button></form>`;
};

/** What the pages of the account give: whole pages. */
type AccountPages = {
  page(visit: Visit, main: Html): string;
  accountPage(visit: Visit, problems: { passkey?: PasskeyProblems; notice?: string }): Promise<string>;
  codesPage(visit: Visit, codes: readonly string[]): string;
};

const passkeyPages = ({ ctx, get, postAfterCode }: Console, { page, accountPage, codesPage }: AccountPages): void => {
  const placeOf = ({ request }: Visit) => passkeyPlaceOf(ctx.config, request.host);

  const refused = async (submission: Submission, problems: Parameters<AccountPages['accountPage']>[1]) => ({
    status: 422,
    page: await accountPage(submission, problems),
  });

  postAfterCode(`${PASSKEYS_PATH}/new`, async (submission): Promise<Outcome> => {
    const place = placeOf(submission);
    if (!place) return { seeOther: ACCOUNT_PATH };
    const name = submission.field('name').trim();
    const nameProblem = passkeyNameProblem(name);
    if (nameProblem !== undefined) return refused(submission, { passkey: { name, nameProblem } });
    const options = await offerPasskey(ctx, visitorOf(submission), place, submission.field('current_password'));
    if (options === undefined) return refused(submission, { passkey: { name, passwordProblem: WRONG_PASSWORD } });
    return page(
      submission,
      html`${passkeyForm(submission.session, {
        kind: 'create',
        action: PASSKEYS_PATH,
        options,
        heading: 'Create the passkey',
        text: html`Your browser asks where to keep ${isolated(name)}. Continue within five minutes.`,
        button: 'Create the passkey',
        fields: html`<input type="hidden" name="name" value="${name}">`,
      })}
<p><a href="${ACCOUNT_PATH}">Back to your account</a></p>`,
    );
  });

  postAfterCode(PASSKEYS_PATH, async (submission): Promise<Outcome> => {
    const place = placeOf(submission);
    if (!place) return { seeOther: ACCOUNT_PATH };
    const name = submission.field('name').trim();
    const nameProblem = passkeyNameProblem(name);
    if (nameProblem !== undefined) return refused(submission, { passkey: { name, nameProblem } });
    const added = await addPasskey(ctx, visitorOf(submission), place, { name, answer: submission.field('answer') });
    if (typeof added === 'string') return refused(submission, { passkey: { name }, notice: passkeyRefusals[added] });
    return added.length === 0 ? { seeOther: ACCOUNT_PATH } : codesPage(submission, added);
  });

  postAfterCode(`${PASSKEYS_PATH}/:id/remove`, async (submission) => {
    await removePasskey(ctx, visitorOf(submission), idOf(submission, 'passkey'));
    return { seeOther: ACCOUNT_PATH };
  });

  // A GET of a form's URL leads to the page.
  for (const action of ['', '/new', '/:id/remove'])
    get(`${PASSKEYS_PATH}${action}`, async () => ({ seeOther: ACCOUNT_PATH }));
};

// The page where members change their password.

const PATH = '/console/password';

/** The errors of the fields. */
type PasswordProblems = { current?: string; next?: string };

/** The address is there for the password manager of the browser. */
const passwordPage = ({ session }: Visit, problems: PasswordProblems): string => {
  const [current, next] = [listed(problems.current), listed(problems.next)];
  return consolePage(session, {
    title: 'Change your password',
    section: 'Account',
    main: html`<h1>Change your password</h1>
<form method="post" action="${PATH}" class="card">${csrfField(session)}
<label>E-mail address<input value="${session.email}" readonly autocomplete="username"></label>
<label>Current password<input type="password" name="current_password" required maxlength="4096" autocomplete="current-password"${invalidAttributes('current-problem', current)}>${fieldProblem('current-problem', current)}</label>
<label>New password<small>12 characters at least. A few words make a good one; names, your address and common passwords are refused.</small>
<input type="password" name="new_password" required minlength="12" maxlength="256" autocomplete="new-password"${invalidAttributes('new-problem', next)}>${fieldProblem('new-problem', next)}</label>
<p class="hint">It is the password of your account in this vault, in every tenant that you are a member of. Your other sessions are signed out.</p>
<button>Change password</button>
</form>`,
  });
};

export const passwordPages = ({ ctx, get, post }: Console): void => {
  get(PATH, async (visit) => passwordPage(visit, {}));

  post(PATH, async (submission): Promise<Outcome> => {
    const { session, request, reply } = submission;
    const [current, next] = [submission.field('current_password'), submission.field('new_password')];
    const refused = (problems: PasswordProblems): Outcome => ({
      status: 422,
      page: passwordPage(submission, problems),
    });
    const changed = await changePassword(ctx, session, { current, next, origin: originOf(request) });
    if (changed.kind === 'refused') return refused({ next: changed.reason });
    if (changed.kind === 'wrong_password') return refused({ current: WRONG_PASSWORD });
    if (changed.kind === 'gone') return { seeOther: SIGN_IN_PATH };
    reply.header('set-cookie', sessionCookie(ctx, changed.secret));
    return { seeOther: '/console/people?done=password' };
  });
};

const DEVICE_PATH = `${ACCOUNT_PATH}/second-factor`;

const WRONG_CODE = 'This code is wrong. Take the one that the app shows now, and check the clock of the device.';

const page = (visit: Visit, main: Html): string =>
  consolePage(visit.session, {
    title: 'Account',
    section: 'Account',
    main: html`<h1>Account</h1>\n${main}`,
    hasPasskeys: true,
  });

const startForm = (visit: Visit, problem: string | undefined): Html => {
  const problems = problem === undefined ? [] : [problem];
  return html`<form method="post" action="${DEVICE_PATH}" class="card"><h2>Add an authenticator app</h2>${csrfField(visit.session)}
<p>An app on your phone shows six digits, which you enter after the password.</p>
${passwordField(visit, 'password-problem', problems)}
<button>Set up an authenticator app</button></form>`;
};

const offerForm = (visit: Visit, offer: { uri: string; text: string }, problem: string | undefined): Html => {
  const problems = problem === undefined ? [] : [problem];
  return html`<form method="post" action="${DEVICE_PATH}/confirm" class="card"><h2>Set up an authenticator app</h2>${csrfField(visit.session)}
<p>Scan this code with the app, or type the key into it. Then enter the code that the app shows.</p>
<p>${qrCode(offer.uri, 'QR code of the key below')}</p>
<p>Key: <code data-key>${offer.text}</code></p>
<label>Code<input name="code" required maxlength="40" inputmode="numeric" autocomplete="one-time-code" spellcheck="false"${invalidAttributes('code-problem', problems)}>${fieldProblem('code-problem', problems)}</label>
<button>Turn on</button></form>`;
};

const removal = (visit: Visit, isLast: boolean): Html =>
  confirmed(visit.session, {
    action: `${DEVICE_PATH}/remove`,
    summary: 'Remove the app',
    question: isLast
      ? 'It is your last device: the recovery codes no longer work either. Then you can set up another app.'
      : 'The app no longer works. Then you can set up another one.',
    button: 'Remove the authenticator app',
  });

const devicesCard = (visit: Visit, { hasApp, passkeys, recoveryCodesLeft }: Devices): Html =>
  html`<section class="card"><h2>Second factor</h2>
${
  visit.session.hasDevice
    ? html`<p>Your password alone is not enough to sign in. ${recoveryCodesLeft} recovery codes are left.</p>`
    : html`<p>With a passkey or an authenticator app, your password alone is not enough to sign in. They belong to your account in this vault, in every tenant that you are a member of.</p>`
}
${hasApp && html`<p>An authenticator app is set up.</p>${removal(visit, passkeys.length === 0)}`}
${passkeys.length > 0 && passkeysTable(visit, passkeys, !hasApp && passkeys.length === 1)}</section>`;

type Problems = { password?: string; code?: string; passkey?: PasskeyProblems; notice?: string };

const accountPage = async (visit: Visit, problems: Problems = {}): Promise<string> => {
  const { session, ctx } = visit;
  const devices = await readDevices(ctx, session);
  const { hasApp, offer, passkeys } = devices;
  return page(
    visit,
    html`${session.pending === 'device' && notice('warn', `${session.tenant_name} requires a second factor. Set it up to continue.`)}
${problems.notice !== undefined && notice('bad', problems.notice)}
${devicesCard(visit, devices)}
${offer && offerForm(visit, offer, problems.code)}
${
  session.mayAddDevices
    ? html`${passkeyStart(visit, problems.passkey ?? {}, passkeys.length)}
${!hasApp && (!offer || problems.password !== undefined) && startForm(visit, problems.password)}`
    : html`<p>To add a device, sign in with your password: you are a member of several tenants, and the provider of one has signed you in.</p>`
}
${session.sso && html`<section class="card"><h2>Single sign-on</h2><p>The provider of ${session.tenant_name} has signed you in. This session is of ${session.tenant_name} alone.</p></section>`}
<section class="card"><h2>Password</h2><p><a href="/console/password">Change password</a></p></section>`,
  );
};

const codesPage = (visit: Visit, codes: readonly string[]): string =>
  page(
    visit,
    html`${notice('good', 'The second factor is on. Your other sessions ask for it too.')}
<section class="card revealed"><h2>Recovery codes</h2>
<p>Each works once in place of a device, such as when you have lost it. Keep them where the devices are not. They are shown this once.</p>
<pre data-copy>${codes.join('\n')}</pre></section>
<p><a class="button" href="/console">Continue</a></p>`,
  );

export const accountPages = (console: Console): void => {
  const { ctx, get, postAfterCode } = console;
  passkeyPages(console, { page, accountPage, codesPage });
  get(ACCOUNT_PATH, (visit) => accountPage(visit));

  postAfterCode(DEVICE_PATH, async (submission): Promise<Outcome> => {
    const isRight = await offerDevice(ctx, visitorOf(submission), submission.field('current_password'));
    if (isRight) return { seeOther: ACCOUNT_PATH };
    return { status: 422, page: await accountPage(submission, { password: WRONG_PASSWORD }) };
  });

  postAfterCode(`${DEVICE_PATH}/confirm`, async (submission): Promise<Outcome> => {
    const codes = await confirmDevice(ctx, visitorOf(submission), submission.field('code'));
    if (codes) return codes.length === 0 ? { seeOther: ACCOUNT_PATH } : codesPage(submission, codes);
    return { status: 422, page: await accountPage(submission, { code: WRONG_CODE }) };
  });

  postAfterCode(`${DEVICE_PATH}/remove`, async (submission) => {
    await removeDevice(ctx, visitorOf(submission));
    return { seeOther: ACCOUNT_PATH };
  });

  // A GET of a form's URL leads to the page.
  for (const action of ['', '/confirm', '/remove'])
    get(`${DEVICE_PATH}${action}`, async () => ({ seeOther: ACCOUNT_PATH }));
};
