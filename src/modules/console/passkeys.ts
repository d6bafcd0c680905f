// The passkeys on the account page: the list, adding one after the password, and removing one.
import { html, type Html } from '../../platform/http/html.ts';
import type { ListedPasskey } from '../people/passkey-records.ts';
import { removePasskey } from '../people/devices.ts';
import { passkeyPlaceOf } from '../people/passkey-place.ts';
import {
  addPasskey,
  offerPasskey,
  PASSKEY_NAME_LENGTH_MAX,
  passkeyNameProblem,
  PASSKEYS_MAX,
} from '../people/passkeys.ts';
import { confirmed, fieldProblem, idOf, invalidAttributes, passwordField, WRONG_PASSWORD } from './forms.ts';
import { isolated } from './list-parts.ts';
import { passkeyForm, passkeyRefusals } from './passkey-forms.ts';
import { visitorOf } from './second-factor.ts';
import { csrfField, recordsTable, time } from './shell.ts';
import { ACCOUNT_PATH, type Console, type Outcome, type Submission, type Visit } from './visit.ts';

const PASSKEYS_PATH = `${ACCOUNT_PATH}/passkeys`;

/** What was typed, and what was wrong with it. */
export type PasskeyProblems = { name?: string; nameProblem?: string; passwordProblem?: string };

const listed = (problem: string | undefined): string[] => (problem === undefined ? [] : [problem]);

/** The passkeys of a member. @param isLast whether the only device is a passkey. */
export const passkeysTable = (visit: Visit, passkeys: readonly ListedPasskey[], isLast: boolean): Html => {
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
export const passkeyStart = (visit: Visit, problems: PasskeyProblems, count: number): Html => {
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

export const passkeyPages = (
  { ctx, get, postAfterCode }: Console,
  { page, accountPage, codesPage }: AccountPages,
): void => {
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
