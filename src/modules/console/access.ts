// Who may do what, and why: a question to /access/explain as a form, and the review as a file with its attestation.
import { html, type Html } from '../../platform/http/html.ts';
import type { Explanation } from '../answers/explain.ts';
import type { Simulated } from '../answers/simulate.ts';
import { permissions } from '../access/permissions.ts';
import { listNames, type NamedRow } from '../logs/name-rows.ts';
import { type FieldProblems, problemsByPlace, problemsNotice, selectField, textArea, textInput } from './forms.ts';
import { addressOf, badge, consolePage, csrfField, may, notice, recordsTable } from './shell.ts';
import { bodyOf, type Console, isSuccess, type Outcome, problemLines, type Submission, type Visit } from './visit.ts';

const PATH = '/console/access';
const REVIEW_PATH = `${PATH}/review`;

/** Records that the form offers, the newest. Others are asked by the API. */
const OFFERED_MAX = 100;

const questionFields = ['application_id', 'permission', 'token_id', 'container', 'host', 'proxy_id'] as const;

type Question = Record<(typeof questionFields)[number], string>;

const readQuestion = (visit: Visit): Question =>
  Object.fromEntries(questionFields.map((name) => [name, visit.query(name).trim()])) as Question;

const optionsOf = (none: string, rows: readonly NamedRow[], chosen: string) => [
  ['', none] as const,
  ...(chosen === '' || rows.some(({ id }) => id === chosen) ? [] : [[chosen, chosen] as const]),
  ...rows.map(({ id, name }) => [id, name] as const),
];

const questionForm = (
  typed: Question,
  problems: FieldProblems,
  offered: { applications: readonly NamedRow[]; proxies: readonly NamedRow[] },
): Html => {
  const form = { typed, problems };
  return html`<form class="card" action="${PATH}">
${selectField(form, { name: 'application_id', label: 'Who', options: optionsOf('I', offered.applications, typed.application_id) })}
${selectField(form, { name: 'permission', label: 'May do', options: permissions.map((each) => [each, each] as const) })}
<div class="pair">${textInput(form, { name: 'token_id', label: 'With the token', hint: 'Its id' })}
${textInput(form, { name: 'container', label: 'Or a token in', hint: html`A container, such as <code>/pci/high/</code>` })}</div>
<div class="pair">${selectField(form, { name: 'proxy_id', label: 'Through the proxy', hint: 'For token:use', options: optionsOf('none', offered.proxies, typed.proxy_id) })}
${textInput(form, { name: 'host', label: 'Or to the host', hint: html`Such as <code>api.example.com</code>` })}</div>
<div class="actions"><button>Ask</button></div></form>`;
};

const byWords = ({ kind, rule_index, description }: Explanation['by']): string => {
  const named = description === undefined ? '' : `: ${description}`;
  if (kind === 'rule') return `Rule ${(rule_index ?? 0) + 1} of its rules decides${named}`;
  if (kind === 'permission') return 'A permission decides, which is on all tokens';
  return kind === 'role' ? `The role decides${named}` : 'Nothing allows it';
};

const showsWords = {
  value: 'The operation gives the value.',
  masked: 'The operation gives the mask.',
  nothing: 'The operation gives nothing of the value.',
} as const;

const skippedWords = {
  permission: 'does not name the permission',
  container: 'does not reach the container',
  condition: 'has a condition that the token does not meet',
} as const;

const answerCard = ({ decision, by, shows, checks, skipped }: Explanation): Html => {
  const isAllowed = decision === 'allowed';
  return html`<section class="card" aria-label="Answer"><h2>${badge(isAllowed ? 'Allowed' : 'Refused', isAllowed ? 'good' : 'bad')}</h2>
<p>${byWords(by)}. ${showsWords[shows]}</p>
${recordsTable('Checks', checks, [
  { label: 'Check', cell: ({ name }) => html`<code>${name}</code>` },
  { label: 'Result', cell: ({ ok }) => badge(ok ? 'passes' : 'refuses', ok ? 'good' : 'bad') },
  { label: 'Why', cell: ({ detail }) => detail },
])}
${
  skipped.length > 0 &&
  html`<h3>Rules that do not decide</h3><ul>${skipped.map(
    ({ rule_index, why }) => html`<li>Rule ${rule_index + 1} ${skippedWords[why]}.</li>`,
  )}</ul>`
}</section>`;
};

const reviewCard = ({ session }: Visit, typed: Attestation, problems: FieldProblems): Html => {
  const form = { typed, problems };
  return html`<section class="card"><h2>Review</h2>
<p>A row for each application, key, member, open proxy and creator of sessions: what it may reveal, use and change, its hosts, its last use, and what nobody is responsible for.</p>
<p><a class="button second" href="${REVIEW_PATH}" download>Download as CSV</a></p>
<form method="post" action="${REVIEW_PATH}">${csrfField(session)}
${textInput(form, { name: 'digest', label: 'SHA-256 of the file that you read', hint: 'It is in the name of the download' })}
${textArea(form, { name: 'note', label: 'Note', hint: 'What you found, and what was changed' })}
<div class="actions"><button class="second">Attest that you read it</button></div></form>
<p class="hint">The log keeps it. PCI DSS 7.2.4 asks for a review every six months.</p></section>`;
};

type Attestation = { digest: string; note: string };

const NO_ATTESTATION: Attestation = { digest: '', note: '' };

const pageOf = async (
  visit: Visit,
  shown: { question: Question; problems?: FieldProblems; above?: Html | undefined; attestation?: Attestation },
): Promise<string> => {
  const { question, problems = new Map(), above, attestation = NO_ATTESTATION } = shown;
  const db = visit.ctx.db.for(visit.session);
  const [applications, proxies] = await Promise.all([
    may(visit.session, 'application:read') ? listNames(db, 'application', OFFERED_MAX) : [],
    may(visit.session, 'proxy:read') ? listNames(db, 'proxy', OFFERED_MAX) : [],
  ]);
  const typed = { ...question, permission: question.permission === '' ? 'token:use' : question.permission };
  return consolePage(visit.session, {
    title: 'Access',
    section: 'Who may',
    main: html`<h1>Who may do what</h1>${visit.query('done') === 'attested' && notice('good', 'The log has your attestation.')}${above}
<div class="columns"><div>${questionForm(typed, problems, { applications, proxies })}</div><div>${reviewCard(visit, attestation, problems)}</div></div>`,
  });
};

const showAccess = async (visit: Visit): Promise<Outcome> => {
  const question = readQuestion(visit);
  if (question.permission === '') return pageOf(visit, { question });
  const json = Object.fromEntries(Object.entries(question).filter(([, value]) => value !== ''));
  const answer = await visit.api({ method: 'POST', url: '/access/explain', json });
  if (isSuccess(answer)) return pageOf(visit, { question, above: answerCard(answer.body as Explanation) });
  const problems = problemsByPlace(answer);
  const above = problemsNotice('There is no answer.', problemLines(answer));
  return { status: answer.status, page: await pageOf(visit, { question, problems, above }) };
};

const downloadReview = async (visit: Visit): Promise<Outcome> => {
  const file = await visit.actAs({ method: 'GET', url: '/access/review?format=csv' });
  if (file.statusCode !== 200) {
    const answer = { status: file.statusCode, headers: {}, body: undefined, ms: 0 };
    return bodyOf<never>(answer);
  }
  return { file, name: `access-review-${String(file.headers['svc-review-digest'])}.csv` };
};

const attest = async (submission: Submission): Promise<Outcome> => {
  const typed = { digest: submission.field('digest').trim(), note: submission.field('note').trim() };
  const answer = await submission.api({ method: 'POST', url: '/access/review/attestations', json: typed });
  if (isSuccess(answer)) return { seeOther: addressOf(PATH, { done: 'attested' }) };
  const problems = problemsByPlace(answer);
  const above = problemsNotice('The review was not attested.', problemLines(answer));
  const question = Object.fromEntries(questionFields.map((name) => [name, ''])) as Question;
  return { status: answer.status, page: await pageOf(submission, { question, problems, above, attestation: typed }) };
};

const changes = [
  ['newly_refused', 'Refused from now on'],
  ['newly_allowed', 'Allowed from now on'],
  ['shows_more', 'Shows more'],
  ['shows_less', 'Shows less'],
] as const;

/** Samples of each change. The API has more. */
const SAMPLES_SHOWN = 5;

/** What a change of an application would have done to its requests of some days, above the form that makes it. */
export const simulatedCard = (result: Simulated, days: number): Html => {
  const samples = changes.flatMap(([name, words]) =>
    result[name].samples.slice(0, SAMPLES_SHOWN).map((sample) => ({ ...sample, words })),
  );
  return html`<section class="card" aria-label="What would change"><h2>Nothing is saved yet</h2>
<p>${result.examined.toLocaleString('en')} decisions of the last ${days} days were made again${
    result.unknown > 0 && html`, of which ${result.unknown.toLocaleString('en')} cannot be decided`
  }.</p>
<ul>${changes.map(([name, words]) => html`<li>${words}: <strong>${result[name].count.toLocaleString('en')}</strong></li>`)}</ul>
${
  samples.length > 0 &&
  recordsTable('Decisions that change', samples, [
    { label: 'What', cell: ({ words }) => words },
    { label: 'Permission', cell: ({ permission }) => html`<code>${permission}</code>` },
    { label: 'On', cell: ({ entity_id }) => html`<span class="mono">${entity_id}</span>` },
    { label: 'Where', cell: ({ container, destination_host }) => destination_host ?? container ?? '' },
    { label: 'Was', cell: ({ was }) => was },
    { label: 'Would be', cell: ({ would_be }) => would_be },
  ])
}</section>`;
};

export const accessPages = (console: Console): void => {
  console.get(PATH, showAccess);
  console.get(REVIEW_PATH, downloadReview);
  console.post(REVIEW_PATH, attest);
};
