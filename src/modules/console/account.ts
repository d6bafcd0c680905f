// The account page: the member's devices of the second factor, and the way to the password.
import { html, type Html } from '../../platform/http/html.ts';
import { qrCode } from '../../platform/http/qr-code.ts';
import { type Devices, readDevices, removeDevice } from '../people/devices.ts';
import { confirmDevice, offerDevice } from '../people/second-factor.ts';
import { confirmed, fieldProblem, invalidAttributes, passwordField, WRONG_PASSWORD } from './forms.ts';
import { type PasskeyProblems, passkeyPages, passkeysTable, passkeyStart } from './passkeys.ts';
import { visitorOf } from './second-factor.ts';
import { consolePage, csrfField, notice } from './shell.ts';
import { ACCOUNT_PATH, type Console, type Outcome, type Visit } from './visit.ts';

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
