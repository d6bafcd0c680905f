// The pages of an application: its form with its key and deletion beside it, and the page that shows a new key once.
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import type { Session } from '../people/sessions.ts';
import { KEY_VARIABLE } from '../../platform/http/request-samples.ts';
import type { Rights } from '../access/rights-summary.ts';
import { type ApplicationForm, applicationForm, rightsCard, typeLabel } from './application-form.ts';
import { type Application, bodyOfForm } from './application-record.ts';
import { copyBox, copyMenu, samplesFor } from './copy.ts';
import { firstCall, rightsIn, TOKEN_PLACEHOLDER } from './key-jobs.ts';
import type { Visit } from './visit.ts';
import { confirmed } from './forms.ts';
import { isolated, shortened } from './list-parts.ts';
import { rulesRefusal } from './rule-rows.ts';
import { badge, consolePage, notice, time } from './shell.ts';

const PATH = '/console/applications';

const back = html`<p class="quiet"><a href="${PATH}">Applications</a></p>`;

/** When a key of the application was used last. */
export const lastUse = ({ last_used_at }: Application): Html =>
  time(last_used_at) ?? html`<span class="quiet">not yet</span>`;

const actor = (id: string | undefined, names: ReadonlyMap<string, string>): Html | undefined =>
  id === undefined ? undefined : html` by ${isolated(names.get(id) ?? id)}`;

const keyCard = (session: Session, { id }: Application, keys: Html, form_id: string): Html => {
  const newKey = {
    action: `${PATH}/${id}/key`,
    summary: 'Replace all keys',
    question:
      'All keys stop working now, everywhere, with the sessions that they made. Clients fail until they have the new key.',
    button: 'Stop all keys and make a new one',
    fields: html`<input type="hidden" name="form_id" value="${form_id}">`,
  };
  return html`<section class="card"><h2>API keys</h2>
${keys}
<p class="hint">A key is shown when it is made. It cannot be shown again.</p>
<p><a class="button second small" href="${PATH}/${id}/keys/new">Add a key</a></p>
${confirmed(session, newKey)}</section>`;
};

const recordCard = (session: Session, application: Application, names: ReadonlyMap<string, string>): Html => {
  const { id, name, created_at, created_by, modified_at, modified_by } = application;
  return html`<section class="card"><h2>Record</h2><dl>
<dt>Id</dt><dd>${shortened(id)}</dd>
<dt>Type</dt><dd>${badge(typeLabel(application.type))}</dd>
<dt>Created</dt><dd>${time(created_at)}${actor(created_by, names)}</dd>
${modified_at !== undefined && html`<dt>Changed</dt><dd>${time(modified_at)}${actor(modified_by, names)}</dd>`}</dl>
<p><a href="/console/logs?actor_id=${id}">What it did, in the log</a></p>
${confirmed(session, {
  action: `${PATH}/${id}/delete`,
  summary: 'Delete this application',
  question: 'Its key and its sessions stop working at once, everywhere. What it created stays.',
  button: `Delete ${name}`,
})}</section>`;
};

/** Undefined while what was typed is not complete. */
const rightsOfForm = ({ typed }: ApplicationForm): Rights | undefined =>
  rulesRefusal(typed) ? undefined : rightsIn(bodyOfForm(typed));

export const newApplicationPage = (session: Session, form: ApplicationForm, above?: HtmlValue): string =>
  consolePage(session, {
    title: 'New application',
    section: 'Applications',
    main: html`${back}
<h1>New application</h1>
${above}
<p class="quiet">A client of the API. It gets an API key, which is shown once.</p>
<div class="columns"><div>${applicationForm(session, form)}</div><div>${rightsCard(rightsOfForm(form), true)}</div></div>`,
  });

/** The page of a stored application. @param shown.names of actors, by id. */
export const applicationPage = (
  visit: Visit,
  shown: {
    application: Application;
    form: ApplicationForm;
    names: ReadonlyMap<string, string>;
    /** The list of its keys. */
    keys: Html;
    /** For the form that makes a new key. */
    form_id: string;
    above?: HtmlValue;
  },
): string => {
  const { application, form, names, keys, form_id, above } = shown;
  const { session } = visit;
  return consolePage(session, {
    title: application.name,
    section: 'Applications',
    main: html`${back}
<h1>${isolated(application.name)}</h1>
${copyMenu(visit, { id: application.id, call: { path: `/applications/${application.id}` } })}
${above}
<div class="columns"><div>${applicationForm(session, form)}</div>
<div>${rightsCard(rightsIn(application), false)}${keyCard(session, application, keys, form_id)}${recordCard(session, application, names)}</div></div>`,
  });
};

/** Shows a key once. The page is not stored (Cache-Control: no-store, as on every page). */
export const newKeyPage = (visit: Visit, application: Application, above?: HtmlValue): string => {
  const { id, name, type, key } = application;
  const rights = rightsIn(application);
  const call = rights && firstCall(rights);
  return consolePage(visit.session, {
    title: 'API key',
    section: 'Applications',
    main: html`${back}
<h1>The API key of ${isolated(name)}</h1>${above}
<section class="card revealed">
${notice('warn', html`<strong>Copy the key now.</strong> This page shows it once, and it cannot be shown again.`)}
<p><code data-copy>${key}</code></p>
<p class="hint">Clients send it as the header <code>SVC-API-KEY</code>. ${
      type === 'public'
        ? 'It may be in a page or an app.'
        : 'Keep it in a secret store: not in code, and not in a page or an app.'
    }</p>
</section>
${
  call &&
  html`<section class="card"><h2>A first request</h2>${copyBox('curl', samplesFor(visit, call).curl)}
<p class="hint"><code>${KEY_VARIABLE}</code> is the key.${JSON.stringify(call).includes(TOKEN_PLACEHOLDER) && html` <code>${TOKEN_PLACEHOLDER}</code> is the id of a token, and the header names where it is sent.`}</p></section>`
}
<p><a class="button second" href="${PATH}/${id}">Done</a></p>`,
  });
};
