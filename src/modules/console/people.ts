// The people page: lists members and invitations, invites, resends, and removes.
import { html, type Html } from '../../platform/http/html.ts';
import { AppError } from '../../platform/base/errors.ts';
import { resetMemberSecondFactor } from '../people/members.ts';
import { INVITATION_HOURS } from '../people/invitations.ts';
import { DEFAULT_ROLE, describeRole, givenRoles } from '../people/roles.ts';
import {
  confirmed,
  tryAgain,
  invalidAttributes,
  fieldProblem,
  idOf,
  problemsByPlace,
  problemsNotice,
} from './forms.ts';
import { isolated } from './list-parts.ts';
import { memberPages } from './member-page.ts';
import {
  changePassword,
  type Member,
  MEMBERS,
  nameOf,
  PEOPLE_PATH as PATH,
  removal,
  roleOf,
  roleOptions,
  secondFactorReset,
} from './member-parts.ts';
import { visitorOf } from './second-factor.ts';
import { type NumberedPage, pageNumber, pagerOf } from './pager.ts';
import { addressOf, badge, consolePage, csrfField, empty, may, notice, recordsTable, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  type Submission,
  isSuccess,
  type Outcome,
  problemLines,
  type Visit,
  SIGN_IN_PATH,
} from './visit.ts';

const INVITATIONS = '/tenants/self/invitations';

/** Rows of each list. Each has its forms: with twenty members and twenty invitations the page has 62 KB. */
const ROWS = '10';

type Invitation = { id: string; email: string; role: string; status: string; expires_at: string };

/** Results that a URL may name. A closed list, because anyone can make a URL. */
const done: ReadonlyMap<string, string> = new Map([
  ['invited', 'The invitation was sent.'],
  ['resent', 'A new link was sent. Earlier links of this invitation no longer work.'],
  ['deleted', 'The invitation was deleted. Its links no longer work.'],
  ['removed', 'The member was removed.'],
  ['role', 'The role was changed. Takes effect now.'],
  [
    'second-factor',
    'The second factor was reset. The member signs in with the password alone, until they add a device.',
  ],
  ['password', 'Your password was changed. Your other sessions were signed out.'],
]);

/** A refusal, shown next to the form or above the lists. */
type Refusal = { heading: string; answer: ApiAnswer; email?: string; role?: string };

const membersTable = (visit: Visit, members: readonly Member[]): Html =>
  recordsTable('Members', members, [
    {
      label: 'Name',
      cell: (member) =>
        html`<a href="${PATH}/members/${member.id}">${isolated(nameOf(member) || member.user.id)}</a>${member.user.id === visit.session.user_id && html` ${badge('you')}`}`,
    },
    { label: 'E-mail', cell: ({ user }) => isolated(user.email ?? '') },
    { label: 'Role', cell: (member) => roleOf(visit, member) },
    { label: 'Since', cell: ({ created_at }) => time(created_at) },
    {
      label: '',
      cell: (member) =>
        member.user.id === visit.session.user_id
          ? html`<div class="row-actions">${changePassword} ${removal(visit, member)}</div>`
          : html`<div class="row-actions">${secondFactorReset(visit, member)} ${removal(visit, member)}</div>`,
    },
  ]);

const invitationsTable = (visit: Visit, invitations: readonly Invitation[]): Html =>
  recordsTable('Invitations', invitations, [
    { label: 'E-mail', cell: ({ email }) => isolated(email) },
    { label: 'Role', cell: ({ role }) => badge(role) },
    { label: 'Status', cell: ({ status }) => badge(status, status === 'PENDING' ? 'good' : 'warn') },
    { label: 'Expires', cell: ({ expires_at }) => time(expires_at) },
    {
      label: '',
      cell: ({
        id,
        email,
      }) => html`<div class="row-actions"><form method="post" action="${PATH}/invitations/${id}/resend">${csrfField(visit.session)}<button class="second small" aria-label="Resend to ${email}">Resend</button></form>
${confirmed(visit.session, { action: `${PATH}/invitations/${id}/delete`, summary: 'Delete', question: 'Its links will no longer work.', button: `Delete the invitation` })}</div>`,
    },
  ]);

/** The time to try again helps after too many requests only, not if the vault has no mail server. */
const linesOfRefusal = ({ answer }: Refusal): string[] =>
  [...problemLines(answer), answer.status === 429 ? tryAgain(answer) : undefined].filter((line) => line !== undefined);

const inviteForm = ({ session }: Visit, refusal: Refusal | undefined): Html => {
  const isMine = refusal?.email !== undefined;
  const emailProblems = isMine ? (problemsByPlace(refusal.answer).get('email') ?? linesOfRefusal(refusal)) : [];
  return html`<form method="post" action="${PATH}/invitations" class="card" novalidate>
<h2>Invite a member</h2>${csrfField(session)}
<label>E-mail address<input type="email" name="email" value="${refusal?.email}" required autocomplete="off" autocapitalize="off" spellcheck="false"${invalidAttributes('email-problem', emailProblems)}>${fieldProblem('email-problem', emailProblems)}</label>
<label>Role<select name="role">${roleOptions(refusal?.role ?? DEFAULT_ROLE)}</select></label>
<p class="hint">${givenRoles.map((role) => html`<strong>${role}</strong>: ${describeRole(role)}. `)}</p>
<p class="hint">We e-mail a link. It works once and expires in ${INVITATION_HOURS} hours.</p>
<button>Invite</button></form>`;
};

/** A development server sends no mail: where the mail with the link is. */
const mailedTo = (visit: Visit): string => {
  const { mail } = visit.ctx.config;
  const isMail = ['invited', 'resent'].includes(visit.query('done'));
  return isMail && mail?.kind === 'files'
    ? ` This server sends no mail: the link is in the newest file in ${mail.directory}.`
    : '';
};

const peoplePage = async (visit: Visit, refusal?: Refusal): Promise<string> => {
  const page = pageNumber(visit.query('page'));
  const invitations_page = pageNumber(visit.query('invitations_page'));
  const [members, invitations] = await Promise.all([
    visit
      .api({ method: 'GET', url: addressOf(MEMBERS, { page, size: ROWS }) })
      .then((answer) => bodyOf<NumberedPage<Member>>(answer)),
    visit
      .api({ method: 'GET', url: addressOf(INVITATIONS, { page: invitations_page, size: ROWS }) })
      .then((answer) => bodyOf<NumberedPage<Invitation>>(answer)),
  ]);
  const isDone = done.get(visit.query('done'));
  const parameters = {
    page: page === '1' ? undefined : page,
    invitations_page: invitations_page === '1' ? undefined : invitations_page,
  };
  return consolePage(visit.session, {
    title: 'People',
    section: 'People',
    main: html`<h1>People</h1>
${refusal === undefined && isDone !== undefined && notice('good', `${isDone}${mailedTo(visit)}`)}
${refusal !== undefined && refusal.email === undefined && problemsNotice(refusal.heading, linesOfRefusal(refusal))}
${inviteForm(visit, refusal)}
${may(visit.session, 'tenant:update') && html`<p><a href="/console/single-sign-on">Single sign-on</a> · <a href="/console/settings">Second factor and other settings</a></p>`}
<h2>Members</h2>
${members.data.length === 0 ? empty('No members on this page.') : membersTable(visit, members.data)}
${!members.data.some(({ user }) => user.id === visit.session.user_id) && html`<p>${changePassword}</p>`}
${pagerOf(members.pagination, { path: PATH, parameters, label: 'Pages of members' })}
<h2>Invitations</h2>
${invitations.data.length === 0 ? empty('No invitations.') : invitationsTable(visit, invitations.data)}
${pagerOf(invitations.pagination, { path: PATH, parameters, name: 'invitations_page', label: 'Pages of invitations' })}`,
  });
};

const to = (code: string): Outcome => ({ seeOther: addressOf(PATH, { done: code }) });

const refused = async (submission: Submission, refusal: Refusal): Promise<Outcome> => ({
  status: refusal.answer.status,
  page: await peoplePage(submission, refusal),
});

export const peoplePages = (console: Console): void => {
  memberPages(console);
  console.get(PATH, (visit) => peoplePage(visit));

  console.postAfterCode(`${PATH}/invitations`, async (submission) => {
    const email = submission.field('email').trim();
    const role = submission.field('role') || DEFAULT_ROLE;
    const answer = await submission.api({ method: 'POST', url: INVITATIONS, json: { email, role } });
    return isSuccess(answer)
      ? to('invited')
      : refused(submission, { heading: 'The invitation was not sent.', answer, email, role });
  });

  console.postAfterCode(`${PATH}/invitations/:id/resend`, async (submission) => {
    const url = `${INVITATIONS}/${idOf(submission, 'invitation')}/resend`;
    const answer = await submission.api({ method: 'POST', url });
    return isSuccess(answer) ? to('resent') : refused(submission, { heading: 'No link was sent.', answer });
  });

  console.postAfterCode(`${PATH}/invitations/:id/delete`, async (submission) => {
    const answer = await submission.api({ method: 'DELETE', url: `${INVITATIONS}/${idOf(submission, 'invitation')}` });
    return isSuccess(answer)
      ? to('deleted')
      : refused(submission, { heading: 'The invitation was not deleted.', answer });
  });

  console.postAfterCode(`${PATH}/members/:id/role`, async (submission) => {
    const url = `${MEMBERS}/${idOf(submission, 'member')}`;
    const answer = await submission.api({ method: 'PUT', url, json: { role: submission.field('role') } });
    if (!isSuccess(answer)) return refused(submission, { heading: 'The role was not changed.', answer });
    // A member who has given up a role may not open this page any more.
    return url.endsWith(submission.session.member_id) ? { seeOther: '/console' } : to('role');
  });

  console.postAfterCode(`${PATH}/members/:id/remove`, async (submission) => {
    const id = idOf(submission, 'member');
    const answer = await submission.api({ method: 'DELETE', url: `${MEMBERS}/${id}` });
    if (!isSuccess(answer)) return refused(submission, { heading: 'The member was not removed.', answer });
    // Members who removed themselves have no session any more.
    return id === submission.session.member_id ? { seeOther: SIGN_IN_PATH } : to('removed');
  });

  console.postAfterCode(`${PATH}/members/:id/second-factor/reset`, async (submission) => {
    if (!may(submission.session, 'tenant:member:update'))
      throw new AppError('forbidden', 'Your role does not change members.');
    await resetMemberSecondFactor(console.ctx, visitorOf(submission), idOf(submission, 'member'));
    return to('second-factor');
  });

  // A GET of a form's URL leads to the page.
  for (const action of [
    'invitations',
    'invitations/:id/resend',
    'invitations/:id/delete',
    'members/:id/role',
    'members/:id/remove',
    'members/:id/second-factor/reset',
  ])
    console.get(`${PATH}/${action}`, async () => ({ seeOther: PATH }));
};
