// The page where members change their password.
import { originOf } from '../access/authenticate.ts';
import { html } from '../../platform/http/html.ts';
import { sessionCookie } from '../../platform/http/session-cookie.ts';
import { changePassword } from '../people/passwords.ts';
import { invalidAttributes, fieldProblem, WRONG_PASSWORD } from './forms.ts';
import { consolePage, csrfField } from './shell.ts';
import { type Console, type Outcome, SIGN_IN_PATH, type Visit } from './visit.ts';

const PATH = '/console/password';

/** The errors of the fields. */
type Problems = { current?: string; next?: string };

const listed = (problem: string | undefined): string[] => (problem === undefined ? [] : [problem]);

/** The address is there for the password manager of the browser. */
const passwordPage = ({ session }: Visit, problems: Problems): string => {
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
    const refused = (problems: Problems): Outcome => ({ status: 422, page: passwordPage(submission, problems) });
    const changed = await changePassword(ctx, session, { current, next, origin: originOf(request) });
    if (changed.kind === 'refused') return refused({ next: changed.reason });
    if (changed.kind === 'wrong_password') return refused({ current: WRONG_PASSWORD });
    if (changed.kind === 'gone') return { seeOther: SIGN_IN_PATH };
    reply.header('set-cookie', sessionCookie(ctx, changed.secret));
    return { seeOther: '/console/people?done=password' };
  });
};
