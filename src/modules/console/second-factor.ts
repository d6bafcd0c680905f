// The page that asks for a passkey or a code, after the password and before sensitive operations; and where it leads next.
import { notFound } from '../../platform/base/errors.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { brand, pageOf } from '../../platform/http/pages.ts';
import { readSessionSecret } from '../../platform/http/session-cookie.ts';
import { originOf } from '../access/authenticate.ts';
import { readDevices } from '../people/devices.ts';
import { passkeyPlaceOf } from '../people/passkey-records.ts';
import { askForPasskey, givePasskey } from '../people/passkeys.ts';
import { giveCode, type Visitor } from '../people/second-factor.ts';
import type { Session } from '../people/sessions.ts';
import { csrfField } from './shell.ts';
import { CODE_PATH, type Console, PASSKEY_CODE_PATH, type Visit } from './visit.ts';

// The page to continue with after signing in.

export const HOME = '/console';

const NEXT_LENGTH_MAX = 2_000;

/** Only a page of the console, in any spelling of the URL. */
export const parseNext = (text: unknown): string => {
  const isValid = typeof text === 'string' && text.length <= NEXT_LENGTH_MAX && /^\/[\x21-\x5b\x5d-\x7e]*$/.test(text);
  // Parsed like a browser does, relative to a host that does not exist.
  const url = isValid ? URL.parse(text, 'https://vault.invalid') : null;
  if (url?.host !== 'vault.invalid') return HOME;
  const isPage = url.pathname === HOME || url.pathname.startsWith(`${HOME}/`);
  return isPage && !/^\/console\/(?:sign-|second-factor|sso\/)/.test(url.pathname) ? url.pathname + url.search : HOME;
};

// Forms that a script completes with a passkey. Without the script they say so, and other ways stay open.

/**
 * @param form.options for the browser, as JSON.
 * @param form.fields more of the form.
 */
export const passkeyForm = (
  session: Session,
  form: {
    kind: 'create' | 'use';
    action: string;
    options: string;
    heading: string;
    text: HtmlValue;
    button: string;
    fields?: Html;
  },
): Html => html`<form method="post" action="${form.action}" class="card" data-passkey="${form.kind}" data-options="${form.options}">
<h2>${form.heading}</h2>${csrfField(session)}${form.fields}<input type="hidden" name="answer">
<p>${form.text}</p>
<p class="problem" role="alert" data-problem></p>
<p class="quiet" data-off>Passkeys need JavaScript, and a browser that has them. This one does not offer them here.</p>
<button hidden data-on>${form.button}</button>
</form>`;

/** Why an answer was refused, as a sentence. */
export const passkeyRefusals = {
  late: 'The page was open for more than five minutes, or was used before. Try again.',
  refused: 'This passkey was refused. Try again, or use another way.',
  cloned:
    'This passkey was refused: a copy of it was used meanwhile. Use another way to sign in, then remove this passkey.',
} as const;

/** @throws notFound without a cookie, which a session cannot be without. */
export const visitorOf = ({ ctx, session, request }: Visit): Visitor => {
  const secret = readSessionSecret(ctx, request);
  if (secret === undefined) throw notFound('session');
  return { session, secret, origin: originOf(request) };
};

const WRONG_CODE = 'This code is wrong, or was used before.';

const codePage = async (visit: Visit, next: string, refusal?: { code?: string; passkey?: string }): Promise<string> => {
  const { ctx, session, request } = visit;
  const { hasApp, passkeys } = await readDevices(ctx, session);
  const options = await askForPasskey(ctx, visitorOf(visit), passkeyPlaceOf(ctx.config, request.host), passkeys);
  const problem = refusal?.code ?? refusal?.passkey;
  const title = options === undefined ? 'Enter your code' : 'Use your second factor';
  return pageOf({
    title,
    width: 'narrow',
    hasPasskeys: options !== undefined,
    main: html`${brand}
<h1>${title}</h1>
${problem !== undefined && html`<div class="notice bad" role="alert" id="refused">${problem}</div>`}
${session.pending === undefined && html`<p>This needs a second factor of the last ten minutes. Nothing was changed yet: give it, then do it again.</p>`}
${
  options !== undefined &&
  passkeyForm(session, {
    kind: 'use',
    action: PASSKEY_CODE_PATH,
    options,
    heading: 'Passkey',
    text: 'Your browser asks for one of your passkeys.',
    button: 'Use a passkey',
    fields: html`<input type="hidden" name="next" value="${next}">`,
  })
}
<form method="post" action="${CODE_PATH}" class="card">${options !== undefined && html`<h2>Or a code</h2>`}${csrfField(session)}
<input type="hidden" name="next" value="${next}">
<label>Code<small>${hasApp ? 'Six digits from your authenticator app, or one of your recovery codes.' : 'One of your recovery codes.'}</small>
<input name="code" required maxlength="40"${attribute('autofocus', options === undefined)} autocomplete="one-time-code" autocapitalize="characters" spellcheck="false"${refusal?.code !== undefined && html` aria-invalid="true" aria-describedby="refused"`}></label>
<button>Continue</button>
</form>
<form method="post" action="/console/sign-out">${csrfField(session)}<button class="second">Sign out</button></form>
<p class="quiet">If you lost your devices and the recovery codes, an administrator of your tenant or the operator of this vault can reset your second factor.</p>`,
  });
};

export const secondFactorPages = ({ ctx, get, post }: Console): void => {
  get(CODE_PATH, async (visit) => {
    const next = parseNext(visit.query('next'));
    return visit.session.hasDevice ? codePage(visit, next) : { seeOther: next };
  });

  post(CODE_PATH, async (submission) => {
    const next = parseNext(submission.field('next'));
    const isRight = await giveCode(ctx, visitorOf(submission), submission.field('code'));
    return isRight ? { seeOther: next } : { status: 422, page: await codePage(submission, next, { code: WRONG_CODE }) };
  });

  post(PASSKEY_CODE_PATH, async (submission) => {
    const next = parseNext(submission.field('next'));
    const place = passkeyPlaceOf(ctx.config, submission.request.host);
    const given = place ? await givePasskey(ctx, visitorOf(submission), place, submission.field('answer')) : 'refused';
    if (given === 'given') return { seeOther: next };
    return { status: 422, page: await codePage(submission, next, { passkey: passkeyRefusals[given] }) };
  });

  // A GET of the form's URL leads to the page.
  get(PASSKEY_CODE_PATH, async () => ({ seeOther: CODE_PATH }));
};
