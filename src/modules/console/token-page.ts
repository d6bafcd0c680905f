// The page of a token: its record, children and last log entries, with forms to reveal, link, bind and delete.
// Only the reveal form shows the value, and the log says so.
import { AppError } from '../../platform/base/errors.ts';
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { describeBound } from '../access/bound-words.ts';
import { fullName } from '../access/person.ts';
import { parseReason, REASON_LENGTH_MAX, type RevealReason } from '../access/reveal-reason.ts';
import { mayReveal } from '../people/roles.ts';
import { boundInputs, boundOf, fieldOfBound, readBound, type TypedBound, typedBoundOf } from './bound-fields.ts';
import { copyMenu } from './copy.ts';
import {
  confirmed,
  fieldProblem,
  type FieldProblems,
  invalidAttributes,
  linesAbove,
  problemsByPlace,
  problemsNotice,
  textInput,
} from './forms.ts';
import {
  cursorPager,
  fetchPage,
  isolated,
  type Listed,
  namesOf,
  otherProblems,
  statusOf,
  totalOf,
} from './list-parts.ts';
import {
  addressOf,
  badge,
  consolePage,
  csrfField,
  empty,
  may,
  notice,
  recordsTable,
  shownJson,
  time,
} from './shell.ts';
import { tokenEditPages } from './token-edit.ts';
import {
  headingOf,
  maskBlock,
  maskLine,
  ownMask,
  type ShownToken,
  tokenLink,
  tokenPath,
  tokenUrl,
} from './token-parts.ts';
import { findTimeline, pictureCard, sameTokens, type Timeline, timelineCard } from './token-timeline.ts';
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

// Shows where a token's value may go, on its page: the bound in words, and a form that changes it.

type BoundForm = { typed: TypedBound; problems: FieldProblems; lines: readonly string[]; status: number };

const CHANGES = 'token:update';

/** @param refused the form as it was typed, where the API refused it. */
const boundCard = (visit: Visit, token: ShownToken, refused: BoundForm | undefined): Html | undefined => {
  const { session } = visit;
  const { id, bound_to, uses, spent } = token;
  const mayChange = may(session, CHANGES);
  if (bound_to === undefined && !mayChange) return undefined;
  const words = describeBound(bound_to);
  const { typed, problems } = refused ?? { typed: typedBoundOf(bound_to), problems: new Map() };
  const action = `${tokenPath(id)}/bound`;
  const change = html`<details${refused && html` open`}><summary>${bound_to ? 'Change the bound' : 'Bind the value'}</summary>
<form method="post" action="${action}">${csrfField(session)}
${refused && problemsNotice('The bound was not changed.', refused.lines)}
${boundInputs(typed, problems)}
<p class="quiet">With a host, a proxy or a reactor, nobody reads the value any more: every page and every key sees the mask.</p>
<button>Save the bound</button></form></details>`;
  const remove = confirmed(session, {
    action: `${action}/remove`,
    summary: 'Remove the bound',
    question: 'The value may then go wherever the permissions of keys let it go.',
    button: 'Remove the bound',
  });
  return html`<section class="card"><h2>Where the value may go</h2>
${bound_to ? html`<ul>${words.map((word) => html`<li><bdi>${word}</bdi></li>`)}</ul>` : html`<p class="quiet">Wherever the permissions of keys let it go.</p>`}
${uses !== undefined && html`<p>${uses} of ${bound_to?.max_uses} uses are counted.</p>`}
${spent !== undefined && html`<p>${spent} of ${bound_to?.allowance?.max_total} ${bound_to?.allowance?.currency} are charged, in minor units.</p>`}
${mayChange && html`${change}${bound_to && remove}`}</section>`;
};

/** Under a rule that reveals, where the role has one: a bound that becomes wider needs it. The answer has the mask at most. */
const patchBound = (submission: Submission, id: string, bound_to: object | null): Promise<ApiAnswer> =>
  submission.api({
    method: 'PATCH',
    url: tokenUrl(id),
    json: { bound_to },
    ...(mayReveal(submission.session.role) && { withAllGrants: true }),
  });

/** @returns the form with its errors; undefined where the bound was changed. */
const saveBound = async (submission: Submission, id: string): Promise<BoundForm | undefined> => {
  const typed = readBound(submission.field);
  const answer = await patchBound(submission, id, boundOf(typed) ?? {});
  if (isSuccess(answer)) return undefined;
  const problems = new Map<string, string[]>();
  for (const [place, sentences] of problemsByPlace(answer)) {
    const field = fieldOfBound(place.replace(/^bound_to/, ''));
    problems.set(field, [...(problems.get(field) ?? []), ...sentences]);
  }
  return { typed, problems, lines: linesAbove(problems, answer), status: answer.status };
};

const removeBound = (submission: Submission, id: string): Promise<ApiAnswer> => patchBound(submission, id, null);

const PATH = '/console/tokens';

/** A revealed value leaves the screen by itself: people leave their desks. */
const REVEALED_SECONDS = 60;

/** Results that a URL may name. A closed list, because anyone can make a URL. */
const doneSentences: ReadonlyMap<string, string> = new Map([
  ['saved', 'The token was saved.'],
  ['linked', 'The child was linked.'],
  ['unlinked', 'The child was unlinked.'],
  ['bound', 'The bound was saved.'],
  ['unbound', 'The bound was removed.'],
  ['hidden', `The value was hidden after ${REVEALED_SECONDS} seconds.`],
]);

type Names = ReadonlyMap<string, string>;

const actor = (id: string | undefined, names: Names): Html | undefined =>
  id === undefined ? undefined : html` by <span title="${id}">${isolated(names.get(id) ?? id)}</span>`;

const row = (name: string, content: Html | undefined | false): Html | undefined =>
  content ? html`<dt>${name}</dt><dd>${content}</dd>` : undefined;

const codes = (texts: readonly string[]): Html => html`${texts.map((text) => html`<code><bdi>${text}</bdi></code> `)}`;

const recordCard = (token: ShownToken, names: Names, timeline: Timeline | undefined): Html => {
  const { fingerprint, fingerprint_expression, search_indexes = [], expires_at, created_at, modified_at } = token;
  const mask = ownMask(token);
  return html`<section class="card"><h2>Record</h2><dl>
${row('Container', codes(token.containers))}
${row('Created', html`${time(created_at)}${actor(token.created_by, names)}`)}
${row('Modified', modified_at !== undefined && html`${time(modified_at)}${actor(token.modified_by, names)}`)}
${row('Expires', expires_at !== undefined && html`${time(expires_at)}`)}
${row('Fingerprint', fingerprint !== undefined && codes([fingerprint]))}
${row('Same value in', timeline && sameTokens(token.id, timeline))}
${row('Fingerprint of', fingerprint_expression !== undefined && codes([fingerprint_expression]))}
${row('Search indexes', search_indexes.length > 0 && codes(search_indexes))}
${row('Mask', mask !== undefined && html`<pre>${mask}</pre>`)}
</dl></section>`;
};

const metadataCard = ({ metadata = {} }: ShownToken): Html | undefined =>
  Object.keys(metadata).length === 0
    ? undefined
    : html`<section class="card"><h2>Metadata</h2><dl>${Object.entries(metadata).map(
        ([name, value]) => html`<dt>${isolated(name)}</dt><dd>${isolated(value)}</dd>`,
      )}</dl></section>`;

type RevealForm = { reason: string; problem: string };

const reasonField = (form: RevealForm | undefined): Html =>
  textInput(
    { typed: { reason: form?.reason ?? '' }, problems: new Map(form ? [['reason', [form.problem]]] : []) },
    {
      name: 'reason',
      label: 'Why?',
      hint: 'The log keeps it. No values.',
      more: html` required maxlength="${REASON_LENGTH_MAX}"`,
    },
  );

const revealCard = (
  { session }: Visit,
  id: string,
  form: RevealForm | undefined,
): Html => html`<details class="card"${attribute('open', form !== undefined)}><summary>Reveal the value</summary>
<p>You will see the value itself, once. The log will say that you did: ${isolated(fullName(session))}, with the time.</p>
<form method="post" action="${tokenPath(id)}/reveal">${csrfField(session)}${session.caller.needs_reveal_reason && reasonField(form)}<button>Reveal the value</button></form></details>`;

const deleteCard = (
  { session }: Visit,
  id: string,
): Html => html`<details class="card"><summary>Delete the token</summary>
<p>The value is gone for good, with the links to other tokens. What refers to the token no longer works.</p>
<form method="post" action="${tokenPath(id)}/delete">${csrfField(session)}<label><input type="checkbox" name="sure" value="yes" required>Delete it for good</label><button class="danger">Delete</button></form></details>`;

type LinkProblem = { child_id: string; lines: string[]; status: number };

/**
 * The API links with `token:read` on both tokens. The console asks for what a role that only reads does not have: it could not undo
 * a link.
 */
const LINKS = 'token:create';

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
  const linkForm = html`<form class="card" method="post" action="${tokenPath(id)}/link">${csrf}
<label for="child">Link a child by its id</label>
<div class="search"><input id="child" name="child_id" value="${problem?.child_id}" required maxlength="400" autocomplete="off" autocapitalize="off" spellcheck="false"${invalidAttributes('child-problem', lines)}><button class="second">Link</button></div>
${fieldProblem('child-problem', lines)}</form>`;
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
        ...(may(visit.session, 'token:delete') ? [{ label: '', cell: unlink }] : []),
      ])
    : empty('No tokens are linked to this one.'))
}
${cursorPager(tokenPath(id), {}, { cursor: 'children', start, page })}
${may(visit.session, LINKS) && linkForm}</section>`;
};

type Refused = { problem?: LinkProblem; bound?: BoundForm; reveal?: RevealForm };

const showToken = async (
  visit: Visit,
  id: string,
  { problem, bound, reveal: form }: Refused = {},
): Promise<Outcome> => {
  const url = tokenUrl(id);
  const start = visit.query('children');
  const token = bodyOf<ShownToken>(await visit.api({ method: 'GET', url }));
  const [listed, timeline] = await Promise.all([
    fetchPage<ShownToken>((size) =>
      visit.api({ method: 'GET', url: addressOf(`${url}/children`, { start, size: String(size) }) }),
    ),
    findTimeline(visit, id),
  ]);
  const name = headingOf(token);
  const names = await namesOf(visit, [token.created_by, token.modified_by]);
  const done = doneSentences.get(visit.query('done'));
  const main = html`<p class="quiet"><a href="${PATH}">Tokens</a></p>
<div class="heading"><div><h1 class="id"><bdi>${name}</bdi></h1>
<p class="quiet"><span class="mono"><bdi>${id}</bdi></span></p></div><div class="row-actions">${badge(token.type)}${may(visit.session, 'token:update') && html`<a class="button second small" href="${tokenPath(id)}/edit">Change</a>`}</div></div>
${copyMenu(visit, { id, call: { path: url } })}
${done !== undefined && notice('good', done)}
${timeline && pictureCard({ id, name, isCard: token.type === 'card', now: visit.ctx.now() }, timeline)}
<div class="columns"><div>
${timeline && timelineCard(visit, id, timeline)}
<section class="card"><h2>Masked value</h2>${maskBlock(token)}</section>
${!timeline && recordCard(token, names, timeline)}
</div><div>
${mayReveal(visit.session.role) && revealCard(visit, id, form)}
${timeline && recordCard(token, names, timeline)}
${metadataCard(token)}
${boundCard(visit, token, bound)}
${may(visit.session, 'token:delete') && deleteCard(visit, id)}
</div></div>
${childrenCard(visit, id, { listed, start, problem })}`;
  return {
    status: problem?.status ?? bound?.status ?? (form ? 422 : statusOf(listed)),
    page: consolePage(visit.session, { title: `Token ${id}`, section: 'Tokens', main }),
  };
};

/** Reads the token as the member, for this request with a rule that reveals. */
const fetchValue = async ({ actAs }: Visit, id: string, reason: RevealReason | undefined): Promise<ShownToken> => {
  const { statusCode, headers, payload } = await actAs({ method: 'GET', url: tokenUrl(id) }, true, reason);
  return bodyOf<ShownToken>({ status: statusCode, headers, body: JSON.parse(payload) as unknown, ms: 0 });
};

const reveal = async (submission: Submission): Promise<Outcome> => {
  if (!mayReveal(submission.session.role)) throw new AppError('forbidden', 'Your role does not see values.');
  const typed = submission.field('reason');
  const reason = submission.session.caller.needs_reveal_reason ? parseReason(typed) : undefined;
  if (typeof reason === 'object')
    return showToken(submission, submission.param('id'), { reveal: { reason: typed, problem: reason.refused } });
  const { id, type, data } = await fetchValue(submission, submission.param('id'), reason);
  // A header hides the value, so that it works without script.
  submission.reply.header('refresh', `${REVEALED_SECONDS}; url=${addressOf(tokenPath(id), { done: 'hidden' })}`);
  const main = html`<p class="quiet"><a href="${PATH}">Tokens</a></p>
<div class="heading"><h1 class="id"><bdi>${id}</bdi></h1>${badge(type)}</div>
${notice('warn', `This is the value itself. That you saw it is in the log. It is hidden after ${REVEALED_SECONDS} seconds, and this page is not kept.`)}
<section class="card revealed"><h2>Value</h2><pre data-copy>${shownJson(data)}</pre></section>
<p><a class="button" href="${tokenPath(id)}">Back to the token</a></p>`;
  return consolePage(submission.session, { title: 'Revealed value', section: 'Tokens', main });
};

const childUrl = (id: string, child_id: string): string =>
  tokenUrl(id) + tokenUrl(child_id).replace('/tokens/', '/children/');

/** @returns the errors of the link form. @throws AppError for an error that is not about the child. */
const linkProblem = (answer: ApiAnswer, child_id: string): LinkProblem => {
  const { status } = answer;
  if (![400, 404, 409].includes(status)) bodyOf(answer);
  return {
    child_id,
    status,
    lines: problemLines(answer).map((line) => line.replace(/^child_id: must/, 'The child must')),
  };
};

export const tokenPages = (console: Console): void => {
  const { get, post, postAfterCode } = console;
  tokenEditPages(console);

  get(`${PATH}/:id`, (visit) => showToken(visit, visit.param('id')));

  postAfterCode(`${PATH}/:id/reveal`, reveal, ['reason']);

  post(`${PATH}/:id/link`, async (submission) => {
    if (!may(submission.session, LINKS)) throw new AppError('forbidden', 'Your role does not link tokens.');
    const id = submission.param('id');
    const child_id = submission.field('child_id').trim();
    const answer = await submission.api({ method: 'POST', url: childUrl(id, child_id) });
    if (isSuccess(answer)) return { seeOther: addressOf(tokenPath(id), { done: 'linked' }) };
    return showToken(submission, id, { problem: linkProblem(answer, child_id) });
  });

  postAfterCode(`${PATH}/:id/bound`, async (submission) => {
    const id = submission.param('id');
    const bound = await saveBound(submission, id);
    return bound ? showToken(submission, id, { bound }) : { seeOther: addressOf(tokenPath(id), { done: 'bound' }) };
  });

  postAfterCode(`${PATH}/:id/bound/remove`, async (submission) => {
    const id = submission.param('id');
    bodyOf(await removeBound(submission, id));
    return { seeOther: addressOf(tokenPath(id), { done: 'unbound' }) };
  });

  postAfterCode(`${PATH}/:id/unlink`, async (submission) => {
    const answer = await submission.api({
      method: 'DELETE',
      url: childUrl(submission.param('id'), submission.field('child_id')),
    });
    // The link may have been deleted already.
    if (!isSuccess(answer) && answer.status !== 404) bodyOf(answer);
    return { seeOther: addressOf(tokenPath(submission.param('id')), { done: 'unlinked' }) };
  });

  postAfterCode(`${PATH}/:id/delete`, async (submission) => {
    const url = tokenUrl(submission.param('id'));
    if (submission.field('sure') !== 'yes') return { seeOther: tokenPath(submission.param('id')) };
    bodyOf(await submission.api({ method: 'DELETE', url }));
    return { seeOther: addressOf(PATH, { done: 'deleted' }) };
  });

  // A GET of a form's URL leads to the page.
  for (const action of ['reveal', 'link', 'bound', 'bound/remove', 'unlink', 'delete'])
    get(`${PATH}/:id/${action}`, async (visit) => ({ seeOther: tokenPath(visit.param('id')) }));
};
