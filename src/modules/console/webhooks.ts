// The pages of webhooks: the list, a new one, and one with its deliveries. The secret is shown once, where it is made.
import { notFound } from '../../platform/base/errors.ts';
import { EVERY_EVENT, eventTypes } from '../../platform/db/event-types.ts';
import { attribute, html, type Html } from '../../platform/http/html.ts';
import type { DeliveryRecord } from '../webhooks/deliveries.ts';
import type { WebhookRecord } from '../webhooks/webhooks.ts';
import {
  confirmed,
  fieldProblem,
  type FieldProblems,
  invalidAttributes,
  isReplayed,
  onceHeader,
  problemsByPlace,
  textInput,
  uuid,
} from './forms.ts';
import { isolated } from './list-parts.ts';
import {
  actionAt,
  deletePages,
  editPages,
  failedPage,
  findRecord,
  type Frame,
  type Kind,
  namedList,
  newPages,
  type RecordForm,
  recordPath,
  recordUrl,
} from './resource-pages.ts';
import { addressOf, badge, consolePage, csrfField, empty, may, notice, recordsTable, time } from './shell.ts';
import {
  type ApiAnswer,
  bodyOf,
  type Console,
  isSuccess,
  type Outcome,
  problemLines,
  type Submission,
  type Visit,
} from './visit.ts';

const KIND: Kind = { path: '/console/webhooks', url: '/webhooks', section: 'Webhooks', noun: 'webhook' };

const { path: PATH, section: SECTION } = KIND;

/** Deliveries that the page of a webhook shows: the newest. */
const DELIVERIES_SHOWN = 20;

const NAMES = ['name', 'url', 'container'] as const;

/** The types of events that a form offers, all of them first. */
const OFFERED = [EVERY_EVENT, ...eventTypes] as const;

const eventField = (type: string): string => `event.${type}`;

/** `events` in the order of the form. */
type Typed = Record<(typeof NAMES)[number], string> & { events: readonly string[] };

/** Results that a URL may name. */
const doneSentences: ReadonlyMap<string, string> = new Map([
  ['saved', 'The webhook was saved.'],
  ['pinged', 'A test event is on its way. Load this page again to see how it ended.'],
  ['replayed', 'The delivery is sent again.'],
  ['paused', 'Paused. No new events are kept for this webhook.'],
  ['resumed', 'Resumed. What waits is sent now.'],
]);

const statusBadge = ({ status, failing_since }: WebhookRecord): Html => {
  if (status !== 'enabled') return badge('paused', 'bad');
  return failing_since === undefined ? badge('enabled', 'good') : badge('failing', 'warn');
};

const listPage = (visit: Visit): Promise<string> =>
  namedList<WebhookRecord>(visit, KIND, {
    heading: html`<div class="heading"><h1>Webhooks</h1><span class="actions">${may(visit.session, 'webhook:create') && html`<a class="button" href="${PATH}/new">New webhook</a>`}</span></div>`,
    above:
      visit.query('done') === 'deleted' && notice('good', 'The webhook was deleted. What waited for it is not sent.'),
    sample: 'Orders*',
    table: (rows) =>
      recordsTable(SECTION, rows, [
        { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${isolated(name)}</a>` },
        { label: 'URL', cell: ({ url }) => html`<code>${url}</code>` },
        { label: 'Status', cell: statusBadge },
      ]),
  });

/** `webhook`: undefined for a new one. */
type WebhookForm = { webhook: WebhookRecord | undefined; typed: Typed; problems: FieldProblems };

const openForm = (webhook: WebhookRecord | undefined): WebhookForm => {
  const { name = '', url = '', events = [], container = '' } = webhook ?? {};
  return { webhook, typed: { name, url, events, container }, problems: new Map() };
};

const formPage = ({ session }: Visit, form: WebhookForm, { hidden, above }: Frame): string => {
  const { webhook, problems, typed } = form;
  const ofEvents = [...problems].filter(([path]) => path.startsWith('events')).flatMap(([, lines]) => lines);
  const title = webhook ? `Change ${webhook.name}` : 'New webhook';
  const path = webhook ? `${PATH}/${webhook.id}` : PATH;
  return consolePage(session, {
    title,
    section: SECTION,
    main: html`<p class="quiet"><a href="${PATH}">Webhooks</a></p>
<h1>${isolated(title)}</h1>
${above}
<form method="post" action="${path}/${webhook ? 'edit' : 'new'}" class="card">${hidden}
${textInput(form, { name: 'name', label: 'Name', more: html` required maxlength="200"` })}
${textInput(form, { name: 'url', label: 'URL', hint: 'An https URL of a public host. Events are sent to it by POST.', more: html` required maxlength="400"` })}
<fieldset${invalidAttributes('events-problem', ofEvents)}><legend>Events</legend>${fieldProblem('events-problem', ofEvents)}
<div class="checks">${OFFERED.map(
      (type) =>
        html`<label class="check"><input type="checkbox" name="${eventField(type)}" value="yes"${attribute('checked', typed.events.includes(type))}>${type === EVERY_EVENT ? 'All, also those of later releases' : html`<span class="mono">${type}</span>`}</label>`,
    )}</div></fieldset>
${textInput(form, { name: 'container', label: 'Container', hint: 'Only tokens in it, with their masks. Empty: tokens of all containers, without masks.' })}
${webhook && html`<p class="hint">What waits is sent to the new URL. The secret stays.</p>`}
<div class="actions"><button>${webhook ? 'Save' : 'Create webhook'}</button><a href="${path}">Cancel</a></div></form>`,
  });
};

/** The page that shows a secret, after a webhook or its secret was made. */
const secretPage = ({ session }: Visit, { id, name, secret, previous_secret_ends_at }: WebhookRecord): string =>
  consolePage(session, {
    title: 'Secret of a webhook',
    section: SECTION,
    main: html`<p class="quiet"><a href="${PATH}">Webhooks</a></p>
<h1>The secret of ${isolated(name)}</h1>
<section class="card revealed">
${notice('warn', html`<strong>Copy it now.</strong> It is not shown again.${previous_secret_ends_at !== undefined && html` The replaced secret signs beside it until ${time(previous_secret_ends_at)}.`}`)}
<p><code data-copy>${secret}</code></p>
<p class="hint">The receiver verifies <code>webhook-signature</code> with it, by a library of Standard Webhooks.</p>
</section>
<p><a class="button second" href="${PATH}/${id}">Done</a></p>`,
  });

const replayForm = (session: Visit['session'], { id, webhook_id, state }: DeliveryRecord): Html | undefined =>
  state === 'waiting' || !may(session, 'webhook:update')
    ? undefined
    : html`<form method="post" action="${PATH}/${webhook_id}/replay">${csrfField(session)}<input type="hidden" name="delivery_id" value="${id}"><button class="second small">Send again</button></form>`;

const deliveriesTable = (session: Visit['session'], deliveries: readonly DeliveryRecord[]): Html =>
  recordsTable('Deliveries', deliveries, [
    { label: 'Event', cell: ({ type }) => html`<code>${type}</code>` },
    { label: 'Time', cell: ({ created_at }) => time(created_at) },
    {
      label: 'State',
      cell: ({ state }) => badge(state, state === 'delivered' ? 'good' : state === 'dead' ? 'bad' : 'warn'),
    },
    { label: 'Attempts', cell: ({ attempts }) => String(attempts) },
    { label: 'Response', cell: ({ response_status, error }) => String(response_status ?? error ?? '') },
    { label: 'Next attempt', cell: ({ next_attempt_at }) => time(next_attempt_at) },
    { label: 'Again', cell: (each) => replayForm(session, each) },
  ]);

const actionForm = (session: Visit['session'], action: string, button: string): Html =>
  html`<form method="post" action="${action}">${csrfField(session)}<button class="second">${button}</button></form>`;

const onePage = async (visit: Visit): Promise<string> => {
  const { session } = visit;
  const webhook = await findRecord<WebhookRecord>(visit, KIND);
  const { id } = webhook;
  const url = `/webhooks/${id}/deliveries?size=${DELIVERIES_SHOWN}`;
  const { data } = bodyOf<{ data: DeliveryRecord[] }>(await visit.api({ method: 'GET', url }));
  const done = doneSentences.get(visit.query('done'));
  const isPaused = webhook.status !== 'enabled';
  const changes = may(session, 'webhook:update');
  return consolePage(session, {
    title: webhook.name,
    section: SECTION,
    main: html`<p class="quiet"><a href="${PATH}">Webhooks</a></p>
<div class="heading"><h1>${isolated(webhook.name)} ${statusBadge(webhook)}</h1>${changes && html`<a class="button second" href="${PATH}/${id}/edit">Change</a>`}</div>
${done !== undefined && notice('good', done)}
${isPaused && webhook.failing_since !== undefined && notice('bad', html`<strong>Paused by the vault.</strong> No delivery has succeeded since ${time(webhook.failing_since)}. Mend the receiver, then resume.`)}
<section class="card"><dl>
<dt>URL</dt><dd><code>${webhook.url}</code></dd>
<dt>Events</dt><dd>${webhook.events.join(', ')}</dd>
<dt>Container</dt><dd>${webhook.container ?? 'all, without masks'}</dd>
<dt>Id</dt><dd><code data-copy>${webhook.id}</code></dd>
${webhook.previous_secret_ends_at !== undefined && html`<dt>Replaced secret</dt><dd>signs until ${time(webhook.previous_secret_ends_at)}</dd>`}
</dl>
${
  changes &&
  html`<div class="actions">${!isPaused && actionForm(session, `${PATH}/${id}/ping`, 'Send a test event')}${actionForm(session, `${PATH}/${id}/${isPaused ? 'resume' : 'pause'}`, isPaused ? 'Resume' : 'Pause')}</div>
${confirmed(session, { action: `${PATH}/${id}/secret`, summary: 'Replace the secret', question: 'The new secret is shown once. The replaced one signs beside it for 24 hours.', button: 'Replace the secret', fields: html`<input type="hidden" name="form_id" value="${visit.ctx.newUuid()}">` })}`
}
${may(session, 'webhook:delete') && confirmed(session, { action: `${PATH}/${id}/delete`, summary: 'Delete this webhook', question: 'What waits for it is not sent.', button: 'Delete the webhook' })}
</section>
<h2>Deliveries</h2>
${data.length === 0 ? empty('Nothing was sent yet.') : deliveriesTable(session, data)}`,
  });
};

const readTyped = ({ field }: Submission): Typed => {
  const texts = Object.fromEntries(NAMES.map((name) => [name, field(name).trim()])) as Omit<Typed, 'events'>;
  const ticked = OFFERED.filter((type) => field(eventField(type)) !== '');
  // All has the others in it.
  return { ...texts, events: ticked.includes(EVERY_EVENT) ? [EVERY_EVENT] : ticked };
};

const webhookForm: RecordForm<WebhookRecord, WebhookForm> = {
  permission: 'webhook:update',
  keeps: NAMES,
  open: openForm,
  read: (submission, webhook) => ({ webhook, typed: readTyped(submission), problems: new Map() }),
  show: formPage,
  toBody: ({ typed: { name, url, events, container } }) => ({
    json: { name, url, events, ...(container !== '' && { container }) },
  }),
  toProblems: (_, answer) => problemsByPlace(answer),
  made: (submission, answer) => {
    const made = answer.body as WebhookRecord;
    return isReplayed(answer) ? { seeOther: `${PATH}/${made.id}` } : secretPage(submission, made);
  },
};

const refused = (submission: Submission, answer: ApiAnswer): Outcome => {
  const shown = { title: 'Webhook', heading: 'Nothing was changed.', lines: problemLines(answer) };
  return { status: answer.status, page: failedPage(submission, KIND, shown) };
};

export const webhooksPages = (console: Console): void => {
  /** A form that makes one request of the API, and goes back to the page. */
  const action = (
    name: string,
    done: string,
    ask: (submission: Submission) => { method: 'POST' | 'PATCH'; rest: string; json?: object },
  ): void =>
    actionAt(console, KIND, name, async (submission) => {
      const url = recordUrl(submission, KIND);
      const { method, rest, json } = ask(submission);
      const answer = await submission.api({ method, url: `${url}${rest}`, ...(json && { json }) });
      if (!isSuccess(answer)) return refused(submission, answer);
      return { seeOther: addressOf(recordPath(submission, KIND), { done }) };
    });

  console.get(PATH, listPage);
  newPages(console, KIND, webhookForm);
  editPages(console, KIND, webhookForm);
  console.get(`${PATH}/:id`, onePage);
  action('ping', 'pinged', () => ({ method: 'POST', rest: '/ping' }));
  action('pause', 'paused', () => ({ method: 'PATCH', rest: '', json: { status: 'paused' } }));
  action('resume', 'resumed', () => ({ method: 'PATCH', rest: '', json: { status: 'enabled' } }));
  action('replay', 'replayed', ({ field }) => {
    const id = field('delivery_id');
    // Anything but a UUID could change the path of the request.
    if (!uuid.test(id)) throw notFound('delivery');
    return { method: 'POST', rest: `/deliveries/${id}/replay` };
  });
  actionAt(console, KIND, 'secret', async (submission) => {
    const headers = onceHeader(submission.field);
    const answer = await submission.api({
      method: 'POST',
      url: `${recordUrl(submission, KIND)}/rotate-secret`,
      headers,
    });
    if (!isSuccess(answer)) return refused(submission, answer);
    return isReplayed(answer)
      ? { seeOther: recordPath(submission, KIND) }
      : secretPage(submission, answer.body as WebhookRecord);
  });
  deletePages(console, KIND);
};
