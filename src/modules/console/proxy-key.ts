// The key of a stored proxy: the form that replaces it, and the page that shows the new one.
import { html, type Html } from '../../platform/http/html.ts';
import { graceField, isReplayed, onceHeader, readGrace } from './form-fields.ts';
import { confirmed, idOf, problemsNotice } from './forms.ts';
import { isolated } from './list-parts.ts';
import type { Proxy } from './proxy-record.ts';
import { consolePage, notice, time } from './shell.ts';
import { type Console, isSuccess, type Outcome, problemLines, type Visit } from './visit.ts';

const PATH = '/console/proxies';

export const rotationForm = ({ session, ctx }: Pick<Visit, 'session' | 'ctx'>, { id }: Pick<Proxy, 'id'>): Html =>
  confirmed(session, {
    action: `${PATH}/${id}/key`,
    summary: 'Replace the key',
    question: 'The new key works at once, and is shown once. A key that was replaced before ends now.',
    button: 'Replace the key',
    fields: html`<input type="hidden" name="form_id" value="${ctx.newUuid()}">
${graceField}`,
  });

const newKeyPage = ({ session }: Visit, { id, name, key, require_auth, previous_key_ends_at }: Proxy): string =>
  consolePage(session, {
    title: 'New key',
    section: 'Proxies',
    main: html`<p class="quiet"><a href="${PATH}">Proxies</a></p>
<h1>The new key of ${isolated(name)}</h1>
<section class="card revealed">
${notice('warn', html`<strong>Give callers the new key.</strong> The replaced key ${previous_key_ends_at === undefined ? 'has ended' : html`works until ${time(previous_key_ends_at)}`}.`)}
<p><code data-copy>${key}</code></p>
<p class="hint">Callers send it as <code>SVC-PROXY-KEY</code>.${!require_auth && ' It is all that they need: treat it as a secret.'}</p>
</section>
<p><a class="button second" href="${PATH}/${id}">Done</a></p>`,
  });

const failedPage = ({ session }: Visit, id: string, lines: readonly string[]): string =>
  consolePage(session, {
    title: 'New key',
    section: 'Proxies',
    main: html`<h1>New key</h1>${problemsNotice('The key was not replaced.', lines)}
<p><a class="button second" href="${PATH}/${id}">Back</a></p>`,
  });

export const proxyKeyPages = (console: Console): void => {
  console.get(`${PATH}/:id/key`, async (visit) => ({ seeOther: `${PATH}/${idOf(visit, 'proxy')}` }));
  console.postAfterCode(`${PATH}/:id/key`, async (submission): Promise<Outcome> => {
    const id = idOf(submission, 'proxy');
    const grace_seconds = readGrace(submission.field);
    if (grace_seconds === undefined)
      return { status: 400, page: failedPage(submission, id, ['The form does not say when the current key ends.']) };
    const answer = await submission.api({
      method: 'POST',
      url: `/proxies/${id}/rotate-key`,
      // A form that is sent twice replaces the key once.
      headers: onceHeader(submission.field),
      json: { grace_seconds },
      // With the key of an open proxy the member gets all that its application holds.
      withAllGrants: true,
    });
    if (!isSuccess(answer)) return { status: answer.status, page: failedPage(submission, id, problemLines(answer)) };
    if (isReplayed(answer)) return { seeOther: `${PATH}/${id}` };
    return newKeyPage(submission, answer.body as Proxy);
  });
};
