// Parts of the pages about members: their names, and the forms that change, reset and remove one.
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { fullName } from '../access/person.ts';
import { givenRoles } from '../people/roles.ts';
import { confirmed } from './forms.ts';
import { badge, csrfField, may } from './shell.ts';
import type { Visit } from './visit.ts';

export const PEOPLE_PATH = '/console/people';
/** Path in the API. */
export const MEMBERS = '/tenants/self/members';

export type Member = {
  id: string;
  role: string;
  user: { id: string; email?: string; first_name?: string; last_name?: string };
  created_at: string;
  modified_at?: string;
  modified_by?: string;
};

/** Both names; empty for none. */
export const nameOf = ({ user }: Member): string => fullName(user);

export const changePassword = html`<a href="/console/password">Change password</a>`;

/** The form that removes a member, or leaves the tenant. */
export const removal = (visit: Visit, member: Member): Html => {
  const isSelf = member.user.id === visit.session.user_id;
  if (member.role === 'OWNER') return html`<span class="quiet">The owner cannot be removed</span>`;
  return confirmed(visit.session, {
    action: `${PEOPLE_PATH}/members/${member.id}/remove`,
    summary: isSelf ? 'Leave' : 'Remove',
    question: isSelf
      ? `You lose all access to ${visit.session.tenant_name}, and are signed out.`
      : `They lose all access to ${visit.session.tenant_name} now. What they created stays.`,
    button: isSelf ? `Leave ${visit.session.tenant_name}` : `Remove ${nameOf(member) || 'this member'}`,
  });
};

/** Undefined for the owner and oneself, and for a role that does not change members. */
export const secondFactorReset = (visit: Visit, { id, role, user }: Member): Html | undefined =>
  role === 'OWNER' || user.id === visit.session.user_id || !may(visit.session, 'tenant:member:update')
    ? undefined
    : confirmed(visit.session, {
        action: `${PEOPLE_PATH}/members/${id}/second-factor/reset`,
        summary: 'Reset second factor',
        question:
          'For a lost device. Their authenticator app and recovery codes no longer work, and their sessions end.',
        button: 'Reset the second factor',
      });

export const roleOptions = (chosen: string): Html =>
  html`${givenRoles.map((role) => html`<option value="${role}"${attribute('selected', role === chosen)}>${role}</option>`)}`;

/** The role, with the form that changes it. */
export const roleOf = ({ session }: Visit, { id, role }: Member): Html =>
  role === 'OWNER'
    ? badge(role)
    : html`${badge(role)}<details class="confirm"><summary>Change</summary><form method="post" action="${PEOPLE_PATH}/members/${id}/role">${csrfField(session)}<select name="role" aria-label="Role">${roleOptions(role)}</select> <button class="small">Change the role</button></form></details>`;
