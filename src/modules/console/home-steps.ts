// The first steps in a new vault, on the home page, with commands for this vault. They are gone when done.
import { html, type Html } from '../../platform/http/html.ts';
import { KEY_VARIABLE } from '../../platform/http/request-samples.ts';
import { copyBox, samplesFor } from './copy.ts';
import { findStepsDone } from './home-rows.ts';
import { SAMPLE_CARD } from './key-jobs.ts';
import { may } from './shell.ts';
import type { Visit } from './visit.ts';

/** Stores a card for tests. */
const call = { path: '/tokens', json: { type: 'card', data: SAMPLE_CARD } };

const command = (language: string, text: string): Html =>
  html`<details><summary>Store a card with ${language}</summary>${copyBox(language, text)}</details>`;

const step = (isDone: boolean, text: string, path: string): Html =>
  html`<li>${isDone ? html`<span class="done">${text}</span> <span class="quiet">done</span>` : html`<a href="${path}">${text}</a>`}</li>`;

/** Undefined where all is done, and for a role that makes no keys. */
export const stepsCard = async (visit: Visit): Promise<Html | undefined> => {
  const { session, ctx } = visit;
  if (!may(session, 'application:create')) return undefined;
  const done = await findStepsDone(ctx.db.for(session));
  const invites = may(session, 'tenant:invitation:create');
  const steps = [
    step(done.token, 'Store a token', '#store'),
    step(done.key, 'Create a key for your server', '/console/applications/new'),
    step(done.run, 'Use it: in a reactor or through a proxy', '/console/reactors'),
    ...(invites ? [step(done.people, 'Invite someone', '/console/people')] : []),
  ];
  if (done.token && done.key && done.run && (done.people || !invites)) return undefined;
  const { curl, JavaScript } = samplesFor(visit, call);
  return html`<section class="card"><h2>First steps</h2><ol class="steps">${steps}</ol>
<div id="store">${command('curl', curl)}
${command('JavaScript', JavaScript)}</div>
<p class="quiet"><code>${KEY_VARIABLE}</code> is an API key of an application with <code>token:create</code>.</p></section>`;
};
