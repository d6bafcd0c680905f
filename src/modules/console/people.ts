// The people pages: lists members and invitations, invites, resends and removes; and the page of a member.
import { AppError, notFound } from '../../platform/base/errors.ts';
import { attribute, html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { fullName } from '../access/person.ts';
import { INVITATION_HOURS } from '../people/invitations.ts';
import { resetMemberSecondFactor } from '../people/members.ts';
import { DEFAULT_ROLE, describeRole, givenRoles } from '../people/roles.ts';
import { copyMenu } from './copy.ts';
import {
  confirmed,
  fieldProblem,
  idOf,
  invalidAttributes,
  problemsByPlace,
  problemsNotice,
  tryAgain,
} from './forms.ts';
import { isolated, namesOf, type NumberedPage, pageNumber, pagerOf, shortened } from './list-parts.ts';
import { findUserOfMember, listSessionsOfMember, type MemberSession } from './rows.ts';
import { visitorOf } from './second-factor.ts';
import { addressOf, badge, consolePage, csrfField, empty, may, notice, recordsTable, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  isSuccess,
  type Outcome,
  problemLines,
  SIGN_IN_PATH,
  type Submission,
  type Visit,
} from './visit.ts';

// Parts of the pages about members: their names, and the forms that change, reset and remove one.

const PATH = '/console/people';

/** Path in the API. */
const MEMBERS = '/tenants/self/members';

type Member = {
  id: string;
  role: string;
  user: { id: string; email?: string; first_name?: string; last_name?: string };
  created_at: string;
  modified_at?: string;
  modified_by?: string;
};

/** Both names; empty for none. */
const nameOf = ({ user }: Member): string => fullName(user);

const changePassword = html`<a href="/console/password">Change password</a>`;

/** The form that removes a member, or leaves the tenant. */
const removal = (visit: Visit, member: Member): Html => {
  const isSelf = member.user.id === visit.session.user_id;
  if (member.role === 'OWNER') return html`<span class="quiet">The owner cannot be removed</span>`;
  return confirmed(visit.session, {
    action: `${PATH}/members/${member.id}/remove`,
    summary: isSelf ? 'Leave' : 'Remove',
    question: isSelf
      ? `You lose all access to ${visit.session.tenant_name}, and are signed out.`
      : `They lose all access to ${visit.session.tenant_name} now. What they created stays.`,
    button: isSelf ? `Leave ${visit.session.tenant_name}` : `Remove ${nameOf(member) || 'this member'}`,
  });
};

/** Undefined for the owner and oneself, and for a role that does not change members. */
const secondFactorReset = (visit: Visit, { id, role, user }: Member): Html | undefined =>
  role === 'OWNER' || user.id === visit.session.user_id || !may(visit.session, 'tenant:member:update')
    ? undefined
    : confirmed(visit.session, {
        action: `${PATH}/members/${id}/second-factor/reset`,
        summary: 'Reset second factor',
        question:
          'For a lost device. Their authenticator app and recovery codes no longer work, and their sessions end.',
        button: 'Reset the second factor',
      });

const roleOptions = (chosen: string): Html =>
  html`${givenRoles.map((role) => html`<option value="${role}"${attribute('selected', role === chosen)}>${role}</option>`)}`;

/** The role, with the form that changes it. */
const roleOf = ({ session }: Visit, { id, role }: Member): Html =>
  role === 'OWNER'
    ? badge(role)
    : html`${badge(role)}<details class="confirm"><summary>Change</summary><form method="post" action="${PATH}/members/${id}/role">${csrfField(session)}<select name="role" aria-label="Role">${roleOptions(role)}</select> <button class="small">Change the role</button></form></details>`;

// The page of a member: role, sessions, what they did, with the forms that change, reset and remove them.

/** The API lists members by their users. */
const callFor = (user_id: string): string => addressOf(MEMBERS, { user_id });

const findMember = async (visit: Visit): Promise<Member> => {
  const id = idOf(visit, 'member');
  const user_id = await findUserOfMember(visit.ctx.db.for(visit.session), id);
  if (user_id === undefined) throw notFound('member');
  const { data } = bodyOf<{ data: Member[] }>(await visit.api({ method: 'GET', url: callFor(user_id) }));
  const member = data.find((each) => each.id === id);
  if (member === undefined) throw notFound('member');
  return member;
};

const instant = (at: Date | null): Html | undefined => time(at?.toISOString());

const sessionsCard = (sessions: readonly MemberSession[]): Html =>
  html`<section class="card"><h2>Sessions <span class="quiet">${sessions.length}</span></h2>${
    sessions.length === 0
      ? html`<p class="quiet">Not signed in.</p>`
      : recordsTable('Sessions', sessions, [
          { label: 'Last seen', cell: ({ seen_at }) => instant(seen_at) },
          { label: 'Began', cell: ({ created_at }) => instant(created_at) },
          { label: 'By', cell: ({ sso }) => (sso ? 'single sign-on' : 'password') },
          {
            label: 'Second factor',
            cell: ({ second_factor_at }) => instant(second_factor_at) ?? html`<span class="quiet">not given</span>`,
          },
          { label: 'Ends at the latest', cell: ({ expires_at }) => instant(expires_at) },
        ])
  }<p class="hint">Last seen is written once a minute.</p></section>`;

const row = (name: string, content: HtmlValue): Html => html`<dt>${name}</dt><dd>${content}</dd>`;

const recordCard = (visit: Visit, member: Member, names: ReadonlyMap<string, string>): Html => {
  const { id, user, created_at, modified_at, modified_by } = member;
  const changer = modified_by === undefined ? undefined : html` by ${isolated(names.get(modified_by) ?? modified_by)}`;
  return html`<section class="card"><h2>Record</h2><dl>
${row('E-mail', isolated(user.email ?? ''))}
${row('Role', roleOf(visit, member))}
${row('Since', time(created_at))}
${modified_at !== undefined && row('Changed', html`${time(modified_at)}${changer}`)}
${row('Id', shortened(id))}
${row('User id', shortened(user.id))}</dl>
${may(visit.session, 'log:read') && html`<p><a href="${addressOf('/console/logs', { actor_id: user.id })}">What they did, in the log</a></p>`}</section>`;
};

const showMember = async (visit: Visit): Promise<string> => {
  const { ctx, session } = visit;
  const member = await findMember(visit);
  const isSelf = member.user.id === session.user_id;
  const [sessions, names] = await Promise.all([
    listSessionsOfMember(ctx.db.for(session), member.id, { now: ctx.now(), idleMs: ctx.config.sessionIdleMs }),
    namesOf(visit, [member.modified_by]),
  ]);
  const name = nameOf(member) || 'A member';
  return consolePage(session, {
    title: name,
    section: 'People',
    main: html`<p class="quiet"><a href="${PATH}">People</a></p>
<div class="heading"><h1>${isolated(name)}</h1>${isSelf && badge('you')}</div>
${copyMenu(visit, { id: member.id, call: { path: callFor(member.user.id) } })}
<div class="columns"><div>${sessionsCard(sessions)}</div>
<div>${recordCard(visit, member, names)}
<section class="card"><h2>Access</h2>${isSelf && html`<p>${changePassword}</p>`}${secondFactorReset(visit, member)}
${removal(visit, member)}</section></div></div>`,
  });
};

const memberPages = (console: Console): void => {
  console.get(`${PATH}/members/:id`, showMember);
};

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
