// The page that asks for the code of a second factor: after the password, and again before sensitive operations.
import { html } from '../../platform/http/html.ts';
import { originOf } from '../access/authenticate.ts';
import { brand, pageOf } from '../../platform/http/pages.ts';
import { readSessionSecret } from '../../platform/http/session-cookie.ts';
import { giveCode, type Visitor } from '../people/second-factor.ts';
import { notFound } from '../../platform/errors.ts';
import { parseNext } from './next.ts';
import { csrfField } from './shell.ts';
import { CODE_PATH, type Console, type Visit } from './visit.ts';

/** @throws notFound without a cookie, which a session cannot be without. */
export const visitorOf = ({ ctx, session, request }: Visit): Visitor => {
  const secret = readSessionSecret(ctx, request);
  if (secret === undefined) throw notFound('session');
  return { session, secret, origin: originOf(request) };
};

const codePage = ({ session }: Visit, { next, isRefused }: { next: string; isRefused: boolean }): string =>
  pageOf({
    title: 'Enter your code',
    width: 'narrow',
    main: html`${brand}
<h1>Enter your code</h1>
${isRefused && html`<div class="notice bad" role="alert" id="refused">This code is wrong, or was used before.</div>`}
${session.pending === undefined && html`<p>What you asked for needs a code that you gave in the last ten minutes. Then do it again: nothing was changed yet.</p>`}
<form method="post" action="${CODE_PATH}" class="card">${csrfField(session)}
<input type="hidden" name="next" value="${next}">
<label>Code<small>Six digits from your authenticator app, or one of your recovery codes.</small>
<input name="code" required maxlength="40" autofocus autocomplete="one-time-code" autocapitalize="characters" spellcheck="false"${isRefused && html` aria-invalid="true" aria-describedby="refused"`}></label>
<button>Continue</button>
</form>
<form method="post" action="/console/sign-out">${csrfField(session)}<button class="second">Sign out</button></form>
<p class="quiet">If you lost the device and the recovery codes, an administrator of your tenant or the operator of this vault can reset your second factor.</p>`,
  });

export const secondFactorPages = ({ ctx, get, post }: Console): void => {
  get(CODE_PATH, async (visit) => {
    const next = parseNext(visit.query('next'));
    return visit.session.hasDevice ? codePage(visit, { next, isRefused: false }) : { seeOther: next };
  });

  post(CODE_PATH, async (submission) => {
    const next = parseNext(submission.field('next'));
    const isRight = await giveCode(ctx, visitorOf(submission), submission.field('code'));
    return isRight ? { seeOther: next } : { status: 422, page: codePage(submission, { next, isRefused: true }) };
  });
};
