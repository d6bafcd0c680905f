// The pages behind the link of an invitation: the form, and a page for links that do not work.
import { html, type Html } from '../../platform/http/html.ts';
import { brand, pageOf } from '../../platform/http/pages.ts';
import type { OpenInvitation } from './acceptance.ts';

/** Messages beside the fields of the form. */
export type JoinProblems = Partial<Record<'first_name' | 'last_name' | 'password', string>>;

export type JoinForm = { first_name: string; last_name: string; problems: JoinProblems; notice?: string | undefined };

export const NAME_LENGTH_MAX = 100;

const problemOf = (name: keyof JoinProblems, problems: JoinProblems): Html | undefined =>
  problems[name] === undefined ? undefined : html`<span class="problem" id="${name}-problem">${problems[name]}</span>`;

const invalidOf = (name: keyof JoinProblems, problems: JoinProblems): Html | undefined =>
  problems[name] === undefined ? undefined : html` aria-invalid="true" aria-describedby="${name}-problem" autofocus`;

const passwordField = ({ isKnownUser }: OpenInvitation, problems: JoinProblems): Html =>
  isKnownUser
    ? html`<label>Your password<small>This address has an account already. Enter its password to join.</small>
<input type="password" name="password" required autocomplete="current-password" maxlength="4096"${invalidOf('password', problems)}>${problemOf('password', problems)}</label>`
    : html`<label>Choose a password<small>12 characters at least. A few words make a good one; names, your address and common passwords are refused.</small>
<input type="password" name="password" required autocomplete="new-password" minlength="12" maxlength="256"${invalidOf('password', problems)}>${problemOf('password', problems)}</label>`;

/** The form posts to the URL of the page itself, so that the page does not contain the secret. */
export const joinPage = (invitation: OpenInvitation, { first_name, last_name, problems, notice }: JoinForm): string =>
  pageOf({
    title: `Join ${invitation.tenant_name}`,
    width: 'narrow',
    main: html`${brand}
<h1>Join ${invitation.tenant_name}</h1>
<p>You are invited to become ${invitation.role === 'OWNER' ? 'the owner' : 'a member'} of ${invitation.tenant_name}, a tenant of this vault.</p>
${notice !== undefined && html`<div class="notice bad" role="alert">${notice}</div>`}
<form method="post" class="card">
<label>E-mail address<input value="${invitation.email}" readonly autocomplete="username"></label>
<label>First name<input name="first_name" value="${first_name}" required maxlength="${NAME_LENGTH_MAX}" autocomplete="given-name"${invalidOf('first_name', problems)}>${problemOf('first_name', problems)}</label>
<label>Last name<input name="last_name" value="${last_name}" maxlength="${NAME_LENGTH_MAX}" autocomplete="family-name"${invalidOf('last_name', problems)}>${problemOf('last_name', problems)}</label>
${passwordField(invitation, problems)}
<button>${invitation.isKnownUser ? 'Sign in and join' : 'Join'}</button>
</form>`,
  });

/** The same for every link that does not work. @param hasConsole whether members can sign in here. */
export const deadLinkPage = (trace_id: string, hasConsole: boolean): string =>
  pageOf({
    title: 'Link no longer valid',
    width: 'narrow',
    main: html`${brand}
<h1>This link is no longer valid</h1>
<p>It was used, it has expired, or a newer one was sent. If you are a member already, ${hasConsole ? html`<a href="/console">sign in</a>` : 'you need no link'}. If not, ask the person who invited you for a new invitation.</p>
<p class="quiet">Trace <code>${trace_id}</code></p>`,
  });

/** For a server without the console. */
export const joinedPage = (tenant_name: string): string =>
  pageOf({
    title: `Member of ${tenant_name}`,
    width: 'narrow',
    main: html`${brand}
<h1>You are a member of ${tenant_name}</h1>
<p>There is nothing more to do here. You may close this page.</p>`,
  });
