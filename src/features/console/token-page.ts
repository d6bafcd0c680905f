// A token's own page: its record as the API shows it, its children, its last entries in the log, and what can be done with it.
// The value itself is on no page but the answer to a deliberate act, which the log tells.
import { html, type Html } from '../../http/html.ts';
import { revealing } from '../../people/sessions.ts';
import type { ActorNames } from './actor-names.ts';
import { fieldProblem, faulty } from './forms.ts';
import {
  askPage,
  cursorPager,
  foreign,
  fullName,
  type Listed,
  otherProblems,
  statusOf,
  totalOf,
} from './list-parts.ts';
import { type LogEntry, logTable } from './log-table.ts';
import { addressOf, badge, consolePage, csrfField, empty, notice, recordsTable, shownJson, time } from './shell.ts';
import { givenMask, maskBlock, maskLine, type ShownToken, tokenLink, tokenPath, tokenUrl } from './token-parts.ts';
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

const PATH = '/console/tokens';

/** Of the log, on a token's page; the page of the log has all. */
const LOG_ENTRIES = 5;

/** What came of a deed, told on the page that the browser asks for anew: from a closed list, for anyone can write an address. */
const doneSentences: ReadonlyMap<string, string> = new Map([
  ['linked', 'The child was linked.'],
  ['unlinked', 'The child was unlinked.'],
]);

type Names = ReadonlyMap<string, string>;

const actor = (id: string | undefined, names: Names): Html | undefined =>
  id === undefined ? undefined : html` by <span title="${id}">${foreign(names.get(id) ?? id)}</span>`;

const row = (name: string, content: Html | undefined | false): Html | undefined =>
  content ? html`<dt>${name}</dt><dd>${content}</dd>` : undefined;

const codes = (texts: readonly string[]): Html => html`${texts.map((text) => html`<code><bdi>${text}</bdi></code> `)}`;

const recordCard = (token: ShownToken, names: Names): Html => {
  const { fingerprint, fingerprint_expression, search_indexes = [], expires_at, created_at, modified_at } = token;
  const mask = givenMask(token);
  return html`<section class="card"><h2>Record</h2><dl>
${row('Container', codes(token.containers))}
${row('Created', html`${time(created_at)}${actor(token.created_by, names)}`)}
${row('Modified', modified_at !== undefined && html`${time(modified_at)}${actor(token.modified_by, names)}`)}
${row('Expires', expires_at !== undefined && html`${time(expires_at)}`)}
${row('Fingerprint', fingerprint !== undefined && codes([fingerprint]))}
${row('Fingerprint of', fingerprint_expression !== undefined && codes([fingerprint_expression]))}
${row('Search indexes', search_indexes.length > 0 && codes(search_indexes))}
${row('Mask', mask !== undefined && html`<pre>${mask}</pre>`)}
</dl></section>`;
};

const metadataCard = ({ metadata = {} }: ShownToken): Html | undefined =>
  Object.keys(metadata).length === 0
    ? undefined
    : html`<section class="card"><h2>Metadata</h2><dl>${Object.entries(metadata).map(
        ([name, value]) => html`<dt>${foreign(name)}</dt><dd>${foreign(value)}</dd>`,
      )}</dl></section>`;

const revealCard = (
  { session }: Visit,
  id: string,
): Html => html`<details class="card"><summary>Reveal the value</summary>
<p>You will see the value itself, once. The log will say that you did: ${foreign(fullName(session))}, with the time.</p>
<form method="post" action="${tokenPath(id)}/reveal">${csrfField(session)}<button>Reveal the value</button></form></details>`;

const deleteCard = (
  { session }: Visit,
  id: string,
): Html => html`<details class="card"><summary>Delete the token</summary>
<p>The value is gone for good, with the links to other tokens. What refers to the token no longer works.</p>
<form method="post" action="${tokenPath(id)}/delete">${csrfField(session)}<label><input type="checkbox" name="sure" value="yes" required>Delete it for good</label><button class="danger">Delete</button></form></details>`;

type LinkProblem = { child_id: string; lines: string[]; status: number };

const childrenCard = (
  visit: Visit,
  id: string,
  { listed, start, problem }: { listed: Listed<ShownToken>; start: string; problem: LinkProblem | undefined },
): Html => {
  const { page, problems } = listed;
  const lines = problem?.lines ?? [];
  const csrf = csrfField(visit.session);
  const unlink = (child: ShownToken): Html =>
    html`<form method="post" action="${tokenPath(id)}/unlink">${csrf}<input type="hidden" name="child_id" value="${child.id}"><button class="second small" aria-label="Unlink ${child.id}">Unlink</button></form>`;
  const total = page && totalOf(page);
  return html`<section id="children"><h2>Children${total !== undefined && html` <span class="quiet">${total}</span>`}</h2>
${otherProblems(problems, [])}
${
  page &&
  (page.data.length > 0
    ? recordsTable('Children', page.data, [
        { label: 'Id', cell: (child) => tokenLink(child.id) },
        { label: 'Type', cell: ({ type }) => badge(type) },
        { label: 'Masked value', cell: maskLine },
        { label: '', cell: unlink },
      ])
    : empty('No tokens are linked to this one.'))
}
${cursorPager(tokenPath(id), {}, { cursor: 'children', start, page })}
<form class="card" method="post" action="${tokenPath(id)}/link">${csrf}
<label for="child">Link a child by its id</label>
<div class="search"><input id="child" name="child_id" value="${problem?.child_id}" required maxlength="400" autocomplete="off" autocapitalize="off" spellcheck="false"${faulty('child-problem', lines)}><button class="second">Link</button></div>
${fieldProblem('child-problem', lines)}</form></section>`;
};

const showToken = async (
  visit: Visit,
  namesOf: ActorNames,
  { id, problem }: { id: string; problem?: LinkProblem },
): Promise<Outcome> => {
  const url = tokenUrl(id);
  const start = visit.query('children');
  const token = bodyOf<ShownToken>(await visit.api({ method: 'GET', url }));
  const [listed, log] = await Promise.all([
    askPage<ShownToken>((size) =>
      visit.api({ method: 'GET', url: addressOf(`${url}/children`, { start, size: String(size) }) }),
    ),
    visit.api({ method: 'GET', url: addressOf('/logs', { entity_id: id, size: String(LOG_ENTRIES) }) }),
  ]);
  const entries = bodyOf<{ data: LogEntry[] }>(log).data;
  const names = await namesOf(visit, [token.created_by, token.modified_by, ...entries.map(({ actor_id }) => actor_id)]);
  const done = doneSentences.get(visit.query('done'));
  const main = html`<p class="quiet"><a href="${PATH}">Tokens</a></p>
<div class="heading"><h1 class="id"><bdi>${id}</bdi></h1>${badge(token.type)}</div>
${done !== undefined && notice('good', done)}
<div class="columns"><div>
<section class="card"><h2>Masked value</h2>${maskBlock(token)}</section>
${recordCard(token, names)}
</div><div>
${revealCard(visit, id)}
${metadataCard(token)}
${deleteCard(visit, id)}
</div></div>
${childrenCard(visit, id, { listed, start, problem })}
<section><div class="heading"><h2>Last in the log</h2><a href="${addressOf('/console/logs', { entity_id: id })}">All entries</a></div>
${logTable(entries, names)}</section>`;
  return {
    status: problem?.status ?? statusOf(listed),
    page: consolePage(visit.session, { title: `Token ${id}`, section: 'Tokens', main }),
  };
};

/** As the member, but for this one request under a rule that reveals. */
const askForValue = async (console: Console, { session, request }: Visit, id: string): Promise<ShownToken> => {
  const { statusCode, headers, payload } = await console.authentication.actAs(revealing(session.caller), request, {
    method: 'GET',
    url: tokenUrl(id),
  });
  return bodyOf<ShownToken>({ status: statusCode, headers, body: JSON.parse(payload) as unknown, ms: 0 });
};

const reveal = async (console: Console, deed: Deed): Promise<Outcome> => {
  const { id, type, data } = await askForValue(console, deed, deed.param('id'));
  const main = html`<p class="quiet"><a href="${PATH}">Tokens</a></p>
<div class="heading"><h1 class="id"><bdi>${id}</bdi></h1>${badge(type)}</div>
${notice('warn', 'This is the value itself. That you saw it is in the log. It is shown this once: this page is not kept.')}
<section class="card revealed"><h2>Value</h2><pre data-copy>${shownJson(data)}</pre></section>
<p><a class="button" href="${tokenPath(id)}">Back to the token</a></p>`;
  return consolePage(deed.session, { title: 'Revealed value', section: 'Tokens', main });
};

const childUrl = (id: string, child_id: string): string =>
  tokenUrl(id) + tokenUrl(child_id).replace('/tokens/', '/children/');

/** @returns what is wrong with a link, to be shown beside its form. @throws AppError where the child is not to blame. */
const linkProblem = (answer: ApiAnswer, child_id: string): LinkProblem => {
  const { status } = answer;
  if (![400, 404, 409].includes(status)) bodyOf(answer);
  return {
    child_id,
    status,
    lines: problemLines(answer).map((line) => line.replace(/^child_id: must/, 'The child must')),
  };
};

export const tokenPages = (console: Console, namesOf: ActorNames): void => {
  const { get, post } = console;

  get(`${PATH}/:id`, (visit) => showToken(visit, namesOf, { id: visit.param('id') }));

  post(`${PATH}/:id/reveal`, (deed) => reveal(console, deed));

  post(`${PATH}/:id/link`, async (deed) => {
    const id = deed.param('id');
    const child_id = deed.field('child_id').trim();
    const answer = await deed.api({ method: 'POST', url: childUrl(id, child_id) });
    if (isSuccess(answer)) return { seeOther: addressOf(tokenPath(id), { done: 'linked' }) };
    return showToken(deed, namesOf, { id, problem: linkProblem(answer, child_id) });
  });

  post(`${PATH}/:id/unlink`, async (deed) => {
    const answer = await deed.api({ method: 'DELETE', url: childUrl(deed.param('id'), deed.field('child_id')) });
    // Gone already is gone.
    if (!isSuccess(answer) && answer.status !== 404) bodyOf(answer);
    return { seeOther: addressOf(tokenPath(deed.param('id')), { done: 'unlinked' }) };
  });

  post(`${PATH}/:id/delete`, async (deed) => {
    const url = tokenUrl(deed.param('id'));
    if (deed.field('sure') !== 'yes') return { seeOther: tokenPath(deed.param('id')) };
    bodyOf(await deed.api({ method: 'DELETE', url }));
    return { seeOther: addressOf(PATH, { done: 'deleted' }) };
  });

  // Forms answer under these addresses; who asks for one by itself wants the token.
  for (const deed of ['reveal', 'link', 'unlink', 'delete'])
    get(`${PATH}/:id/${deed}`, async (visit) => ({ seeOther: tokenPath(visit.param('id')) }));
};
