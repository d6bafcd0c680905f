// Finds records for one box: ids, trace ids and names in the URL of the page, and last four digits by POST, so that no URL has them.
import { timeOfId } from '../../platform/crypto/ids.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import type { Permission } from '../access/permissions.ts';
import { findNames } from '../logs/name-rows.ts';
import { FORWARDS_PATH } from './forward-record.ts';
import { uuid } from './forms.ts';
import { fetchPage, isolated, shortened } from './list-parts.ts';
import { RUNS_PATH } from './run-record.ts';
import { addressOf, badge, consolePage, empty, FIND_LENGTH_MAX, FIND_PATH, may, notice } from './shell.ts';
import { maskLine, type ShownToken, tokenPath } from './token-parts.ts';
import { bodyOf, type Console, isSuccess, type Outcome, type Submission, type Visit } from './visit.ts';

type Found = { kind: string; name: HtmlValue; path: string; more?: HtmlValue };

/** Records of a kind that a name finds. */
const NAMED_MAX = 5;

const kinds = [
  ['reactor', 'Reactor', 'reactor:read', '/console/reactors', '/reactors'],
  ['proxy', 'Proxy', 'proxy:read', '/console/proxies', '/proxies'],
  ['application', 'Application', 'application:read', '/console/applications', '/applications'],
] as const satisfies readonly (readonly [
  entity: string,
  word: string,
  permission: Permission,
  path: string,
  url: string,
])[];

const kindsOf = (visit: Visit) => kinds.filter(([, , permission]) => may(visit.session, permission));

const tokenFound = (token: ShownToken): Found => ({
  kind: 'Token',
  name: maskLine(token),
  more: html`${badge(token.type)} <span class="mono quiet">${shortened(token.id)}</span>`,
  path: tokenPath(token.id),
});

const findToken = async (visit: Visit, id: string): Promise<Found[]> => {
  if (!may(visit.session, 'token:read')) return [];
  const answer = await visit.api({ method: 'GET', url: addressOf('/tokens', { id }) });
  // A text that is no id of a token is refused.
  return isSuccess(answer) ? bodyOf<{ data: ShownToken[] }>(answer).data.map(tokenFound) : [];
};

/** Reactors, proxies and applications with this id. */
const findRecords = async (visit: Visit, id: string): Promise<Found[]> => {
  const db = visit.ctx.db.for(visit.session);
  const found = kindsOf(visit).map(async ([entity, kind, , path]) =>
    (await findNames(db, entity, [id])).map(({ name }) => ({ kind, name: isolated(name), path: `${path}/${id}` })),
  );
  return (await Promise.all(found)).flat();
};

const findRun = async (visit: Visit, id: string): Promise<Found[]> => {
  if (!may(visit.session, 'log:read')) return [];
  const answer = await visit.api({ method: 'GET', url: `/runs/${id}` });
  return isSuccess(answer) ? [{ kind: 'Run', name: shortened(id), path: `${RUNS_PATH}/${id}` }] : [];
};

const findForward = async (visit: Visit, id: string): Promise<Found[]> => {
  if (!may(visit.session, 'forward:read')) return [];
  const answer = await visit.api({ method: 'GET', url: `/forwards/${id}` });
  return isSuccess(answer) ? [{ kind: 'Forward', name: shortened(id), path: `${FORWARDS_PATH}/${id}` }] : [];
};

/** A row of the log: its id has its time, so that the rows of this millisecond are read. */
const findLogRow = async (visit: Visit, id: string): Promise<Found[]> => {
  if (!may(visit.session, 'log:read') || id[14] !== '7') return [];
  const at = timeOfId(id).getTime();
  const range = { start_date: new Date(at).toISOString(), end_date: new Date(at + 1).toISOString() };
  const { data } = bodyOf<{ data: { id: string; message: string }[] }>(
    await visit.api({ method: 'GET', url: addressOf('/logs', { ...range, size: '100' }) }),
  );
  const row = data.find((entry) => entry.id === id);
  return row ? [{ kind: 'Log', name: row.message, path: addressOf('/console/logs', range) }] : [];
};

const findTrace = async (visit: Visit, trace_id: string): Promise<Found[]> => {
  if (!may(visit.session, 'log:read')) return [];
  const answer = await visit.api({ method: 'GET', url: addressOf('/logs', { trace_id, size: '1' }) });
  // A text that is no trace id is refused.
  if (!isSuccess(answer)) return [];
  const { pagination } = bodyOf<{ pagination: { total_items: number } }>(answer);
  if (pagination.total_items === 0) return [];
  const name = `${pagination.total_items.toLocaleString('en')} ${pagination.total_items === 1 ? 'entry' : 'entries'} in the log`;
  return [{ kind: 'Trace', name, path: addressOf('/console/logs', { trace_id }) }];
};

const findNamed = async (visit: Visit, text: string): Promise<Found[]> => {
  const found = kindsOf(visit).map(async ([, kind, , path, url]) => {
    const answer = await visit.api({
      method: 'GET',
      url: addressOf(url, { name: text.endsWith('*') ? text : `${text}*`, size: String(NAMED_MAX) }),
    });
    if (!isSuccess(answer)) return [];
    return bodyOf<{ data: { id: string; name: string }[] }>(answer).data.map(({ id, name }) => ({
      kind,
      name: isolated(name),
      path: `${path}/${id}`,
    }));
  });
  return (await Promise.all(found)).flat();
};

const findAll = async (visit: Visit, text: string): Promise<Found[]> => {
  const id = text.toLowerCase();
  const searches = uuid.test(text)
    ? [
        ...[findToken, findRecords, findRun, findForward, findLogRow].map((find) => find(visit, id)),
        findTrace(visit, text),
      ]
    : [findToken(visit, text), findTrace(visit, text), findNamed(visit, text)];
  return (await Promise.all(searches)).flat();
};

const resultPage = (visit: Visit, query: string, found: readonly Found[], more?: Html): string =>
  consolePage(visit.session, {
    title: 'Find',
    section: 'None',
    query,
    main: html`<h1>Find</h1>${more}
${
  found.length === 0
    ? empty(
        query === ''
          ? 'Type an id, a trace id, a name, or the last four digits of a card.'
          : html`<p>Nothing matches.</p><p class="quiet">An id, a trace id and last four digits match as a whole, a name by its beginning. Metadata and other values of tokens: <a href="/console/tokens">search tokens</a>.</p>`,
      )
    : html`<ul class="card found">${found.map(
        ({ kind, name, path, more: beside }) =>
          html`<li><span class="quiet">${kind}</span> <a href="${path}">${name}</a> ${beside}</li>`,
      )}</ul>`
}`,
  });

const LAST_FOUR = /^\d{4}$/;
/** A text of digits, or one with as many as a card number has: no URL may have them. */
const MANY_DIGITS = /^\d(?:[ -]?\d){4,}$|\d(?:[ -]?\d){11}/;

const findLastFour = async (submission: Submission, digits: string): Promise<Outcome> => {
  if (!may(submission.session, 'token:search')) return resultPage(submission, digits, []);
  const { page } = await fetchPage<ShownToken>((size) =>
    submission.api({ method: 'POST', url: '/tokens/search', json: { query: `last4:${digits}`, size } }),
  );
  const found = (page?.data ?? []).map(tokenFound);
  const isMore = page?.pagination.next !== undefined;
  const more = isMore
    ? notice(
        'warn',
        html`There are more. <a href="/console/tokens">Search tokens</a> for <code>last4:${digits} AND metadata.KEY:VALUE</code>.`,
      )
    : undefined;
  return resultPage(submission, digits, found, more);
};

export const findPages = (console: Console): void => {
  console.get(FIND_PATH, async (visit) => {
    const text = visit.query('q').trim().slice(0, FIND_LENGTH_MAX);
    if (text === '') return resultPage(visit, '', []);
    const found = await findAll(visit, text);
    const [only] = found;
    return found.length === 1 && only ? { seeOther: only.path } : resultPage(visit, text, found);
  });

  console.post(FIND_PATH, async (submission) => {
    const text = submission.field('q').trim().slice(0, FIND_LENGTH_MAX);
    if (LAST_FOUR.test(text)) return findLastFour(submission, text);
    if (MANY_DIGITS.test(text) && !uuid.test(text))
      return resultPage(
        submission,
        '',
        [],
        notice(
          'warn',
          html`That may be a whole number. Type its last four digits here, or <a href="/console/tokens">search tokens</a>.`,
        ),
      );
    return { seeOther: addressOf(FIND_PATH, { q: text }) };
  });
};
