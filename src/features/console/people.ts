// People in the console: who is a member, who is invited. Each deed asks the API as the member, and leads back to the list with
// what was done; what the API refuses stands where it was asked for.
import { html, type Html } from '../../http/html.ts';
import { comeAgain, faulty, fieldProblem, idOf, problemsByPlace, problemsNotice } from './forms.ts';
import { foreign, fullName } from './list-parts.ts';
import { pageNumber, pagerOf, type Pagination } from './pager.ts';
import { addressOf, badge, consolePage, csrfField, empty, notice, recordsTable, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  type Deed,
  isSuccess,
  type Outcome,
  problemLines,
  type Visit,
} from './visit.ts';

const PATH = '/console/people';
const MEMBERS = '/tenants/self/members';
const INVITATIONS = '/tenants/self/invitations';

type Member = {
  id: string;
  role: string;
  user: { id: string; email?: string; first_name?: string; last_name?: string };
  created_at: string;
};
type Invitation = { id: string; email: string; status: string; expires_at: string };
type Listed<Row> = { data: Row[]; pagination: Pagination };

/** What a page is told by its address came of a deed: from a closed list, for anyone can write an address. */
const done: ReadonlyMap<string, string> = new Map([
  ['invited', 'The invitation is on its way.'],
  ['resent', 'A new link is on its way. Earlier links of this invitation are void.'],
  ['deleted', 'The invitation is gone, and its links are void.'],
  ['removed', 'The member has no access any more.'],
  ['password', 'Your password is changed. Wherever else you were signed in, you are signed out.'],
]);

/** What is said beside the form or above the lists after a refusal. */
type Refusal = { heading: string; answer: ApiAnswer; email?: string };

const nameOf = ({ user }: Member): string => fullName(user);

/** Opened, it asks: the button within does it. Without script too. */
const confirmed = (
  { session }: Visit,
  ask: { action: string; summary: string; question: string; button: string },
): Html => html`<details class="confirm"><summary>${ask.summary}</summary><form method="post" action="${ask.action}">
${csrfField(session)}<p>${ask.question}</p><button class="danger small">${ask.button}</button></form></details>`;

const changePassword = html`<a href="/console/password">Change password</a>`;

const removal = (visit: Visit, member: Member): Html => {
  const isSelf = member.user.id === visit.session.user_id;
  if (member.role === 'OWNER') return html`<span class="quiet">The owner cannot be removed</span>`;
  return confirmed(visit, {
    action: `${PATH}/members/${member.id}/remove`,
    summary: isSelf ? 'Leave' : 'Remove',
    question: isSelf
      ? `You lose all access to ${visit.session.tenant_name}, and are signed out.`
      : `They lose all access to ${visit.session.tenant_name} at once. What they made stays.`,
    button: isSelf ? `Leave ${visit.session.tenant_name}` : `Remove ${nameOf(member) || 'this member'}`,
  });
};

const membersTable = (visit: Visit, members: readonly Member[]): Html =>
  recordsTable('Members', members, [
    {
      label: 'Name',
      cell: (member) =>
        html`${foreign(nameOf(member))}${member.user.id === visit.session.user_id && html` ${badge('you')}`}`,
    },
    { label: 'E-mail', cell: ({ user }) => foreign(user.email ?? '') },
    { label: 'Role', cell: ({ role }) => badge(role) },
    { label: 'Since', cell: ({ created_at }) => time(created_at) },
    {
      label: '',
      cell: (member) =>
        member.user.id === visit.session.user_id
          ? html`<div class="deeds">${changePassword} ${removal(visit, member)}</div>`
          : removal(visit, member),
    },
  ]);

const invitationsTable = (visit: Visit, invitations: readonly Invitation[]): Html =>
  recordsTable('Invitations', invitations, [
    { label: 'E-mail', cell: ({ email }) => foreign(email) },
    { label: 'Status', cell: ({ status }) => badge(status, status === 'PENDING' ? 'good' : 'warn') },
    { label: 'Expires', cell: ({ expires_at }) => time(expires_at) },
    {
      label: '',
      cell: ({
        id,
        email,
      }) => html`<div class="deeds"><form method="post" action="${PATH}/invitations/${id}/resend">${csrfField(visit.session)}<button class="second small" aria-label="Resend to ${email}">Resend</button></form>
${confirmed(visit, { action: `${PATH}/invitations/${id}/delete`, summary: 'Delete', question: 'Its links are void then.', button: `Delete the invitation` })}</div>`,
    },
  ]);

/** A vault without mail has none in a while either: only of too much is it said when to come again. */
const linesOfRefusal = ({ answer }: Refusal): string[] =>
  [...problemLines(answer), answer.status === 429 ? comeAgain(answer) : undefined].filter((line) => line !== undefined);

const inviteForm = ({ session }: Visit, refusal: Refusal | undefined): Html => {
  const isMine = refusal?.email !== undefined;
  const beside = isMine ? (problemsByPlace(refusal.answer).get('email') ?? linesOfRefusal(refusal)) : [];
  return html`<form method="post" action="${PATH}/invitations" class="card" novalidate>
<h2>Invite somebody</h2>${csrfField(session)}
<label>E-mail address<input type="email" name="email" value="${refusal?.email}" required autocomplete="off" autocapitalize="off" spellcheck="false"${faulty('email-problem', beside)}>${fieldProblem('email-problem', beside)}</label>
<p class="hint">They get a link by mail, which works once, within 72 hours. As a member they can do everything that you can.</p>
<button>Invite</button></form>`;
};

const peoplePage = async (visit: Visit, refusal?: Refusal): Promise<string> => {
  const page = pageNumber(visit.query('page'));
  const invitations_page = pageNumber(visit.query('invitations_page'));
  const [members, invitations] = await Promise.all([
    visit.api({ method: 'GET', url: addressOf(MEMBERS, { page }) }).then((answer) => bodyOf<Listed<Member>>(answer)),
    visit
      .api({ method: 'GET', url: addressOf(INVITATIONS, { page: invitations_page }) })
      .then((answer) => bodyOf<Listed<Invitation>>(answer)),
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
${refusal === undefined && isDone !== undefined && notice('good', isDone)}
${refusal !== undefined && refusal.email === undefined && problemsNotice(refusal.heading, linesOfRefusal(refusal))}
${inviteForm(visit, refusal)}
<h2>Members</h2>
${members.data.length === 0 ? empty('There is nobody on this page.') : membersTable(visit, members.data)}
${!members.data.some(({ user }) => user.id === visit.session.user_id) && html`<p>${changePassword}</p>`}
${pagerOf(members.pagination, { path: PATH, parameters, label: 'Pages of members' })}
<h2>Invitations</h2>
${invitations.data.length === 0 ? empty('Nobody is invited.') : invitationsTable(visit, invitations.data)}
${pagerOf(invitations.pagination, { path: PATH, parameters, name: 'invitations_page', label: 'Pages of invitations' })}`,
  });
};

const to = (code: string): Outcome => ({ seeOther: addressOf(PATH, { done: code }) });

const refused = async (deed: Deed, refusal: Refusal): Promise<Outcome> => ({
  status: refusal.answer.status,
  page: await peoplePage(deed, refusal),
});

export const peoplePages = (console: Console): void => {
  console.get(PATH, (visit) => peoplePage(visit));

  console.post(`${PATH}/invitations`, async (deed) => {
    const email = deed.field('email').trim();
    const answer = await deed.api({ method: 'POST', url: INVITATIONS, json: { email } });
    return isSuccess(answer) ? to('invited') : refused(deed, { heading: 'Nobody was invited.', answer, email });
  });

  console.post(`${PATH}/invitations/:id/resend`, async (deed) => {
    const url = `${INVITATIONS}/${idOf(deed, 'invitation')}/resend`;
    const answer = await deed.api({ method: 'POST', url });
    return isSuccess(answer) ? to('resent') : refused(deed, { heading: 'No link was sent.', answer });
  });

  console.post(`${PATH}/invitations/:id/delete`, async (deed) => {
    const answer = await deed.api({ method: 'DELETE', url: `${INVITATIONS}/${idOf(deed, 'invitation')}` });
    return isSuccess(answer) ? to('deleted') : refused(deed, { heading: 'The invitation was not deleted.', answer });
  });

  console.post(`${PATH}/members/:id/remove`, async (deed) => {
    const id = idOf(deed, 'member');
    const answer = await deed.api({ method: 'DELETE', url: `${MEMBERS}/${id}` });
    if (!isSuccess(answer)) return refused(deed, { heading: 'The member was not removed.', answer });
    // Whoever removed themselves has no session any more.
    return id === deed.session.member_id ? { seeOther: '/console/sign-in' } : to('removed');
  });

  // Forms answer under these addresses; who asks for one by itself wants the page.
  for (const deed of ['invitations', 'invitations/:id/resend', 'invitations/:id/delete', 'members/:id/remove'])
    console.get(`${PATH}/${deed}`, async () => ({ seeOther: PATH }));
};
