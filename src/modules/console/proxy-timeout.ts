// The form of a stored proxy's timeout. It sends the proxy as it is, with another time: the API replaces a proxy as a whole.
import { TIMEOUT_SECONDS } from '../../platform/base/times.ts';
import { html, type Html } from '../../platform/http/html.ts';
import type { Session } from '../people/sessions.ts';
import { problemsNotice } from './forms.ts';
import type { Proxy } from './proxy-record.ts';
import { csrfField, may } from './shell.ts';
import { isSuccess, problemLines, type Submission } from './visit.ts';

const TIMEOUT_FIELD = 'timeout_seconds';

/** Shows the time, to members who may change it with a form. */
export const timeoutPart = (session: Session, { id, timeout_seconds }: Proxy): Html =>
  may(session, 'proxy:update')
    ? html`<form method="post" action="/console/proxies/${id}/timeout">${csrfField(session)}
<label>Seconds for the head of a response<input type="number" name="${TIMEOUT_FIELD}" value="${timeout_seconds}" min="${TIMEOUT_SECONDS.least}" max="${TIMEOUT_SECONDS.most}" required></label>
<div class="actions"><button class="second small">Save</button></div></form>`
    : html`<p>The destination has ${timeout_seconds} seconds for the head of a response.</p>`;

/** @returns undefined, or why the API refused it, for the page. */
export const changeTimeout = async (
  submission: Submission,
  proxy: Proxy,
): Promise<{ status: number; above: Html } | undefined> => {
  const { name, destination_url, require_auth, expressions, request_transform, response_transform } = proxy;
  const { configuration, allowed_hosts, application_id } = proxy;
  // Left out: the client certificate, which stays then.
  const typed = submission.field(TIMEOUT_FIELD).trim();
  const answer = await submission.api({
    method: 'PUT',
    url: `/proxies/${proxy.id}`,
    json: {
      name,
      destination_url,
      require_auth,
      expressions,
      request_transform,
      response_transform,
      configuration,
      allowed_hosts,
      application: application_id === undefined ? null : { id: application_id },
      [TIMEOUT_FIELD]: /^\d{1,6}$/.test(typed) ? Number(typed) : typed,
    },
    withAllGrants: true,
  });
  if (isSuccess(answer)) return undefined;
  return { status: answer.status, above: problemsNotice('The timeout was not changed.', problemLines(answer)) };
};
