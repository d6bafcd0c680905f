// The page of a member: role, sessions, what they did, with the forms that change, reset and remove them.
import { notFound } from '../../platform/base/errors.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { namesOf } from './actor-names.ts';
import { copyMenu } from './copy.ts';
import { idOf } from './forms.ts';
import { isolated, shortened } from './list-parts.ts';
import {
  changePassword,
  type Member,
  MEMBERS,
  nameOf,
  PEOPLE_PATH,
  removal,
  roleOf,
  secondFactorReset,
} from './member-parts.ts';
import { findUserOfMember, listSessionsOfMember, type MemberSession } from './member-rows.ts';
import { addressOf, badge, consolePage, may, recordsTable, time } from './shell.ts';
import { bodyOf, type Console, type Visit } from './visit.ts';

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
    main: html`<p class="quiet"><a href="${PEOPLE_PATH}">People</a></p>
<div class="heading"><h1>${isolated(name)}</h1>${isSelf && badge('you')}</div>
${copyMenu(visit, { id: member.id, call: { path: callFor(member.user.id) } })}
<div class="columns"><div>${sessionsCard(sessions)}</div>
<div>${recordCard(visit, member, names)}
<section class="card"><h2>Access</h2>${isSelf && html`<p>${changePassword}</p>`}${secondFactorReset(visit, member)}
${removal(visit, member)}</section></div></div>`,
  });
};

export const memberPages = (console: Console): void => {
  console.get(`${PEOPLE_PATH}/members/:id`, showMember);
};
