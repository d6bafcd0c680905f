// The reactor pages: lists reactors, creates one with sample code, tests, deploys, runs and restores it, all by the API.
import { html, type Html } from '../../platform/http/html.ts';
import { listOfficialNames } from '../code/rows/formulas.ts';
import { reactorCode, restoredNotice, versionPages } from './code-versions.ts';
import { linesOf, problemsByPlace, problemsNotice, tryAgain, uuid } from './forms.ts';
import { clipped, pageNumber } from './list-parts.ts';
import { editorPage, elementField } from './reactor-editor.ts';
import { configurationOf, type Formula, openEditor, type Reactor, readEditor } from './reactor-record.ts';
import { runReactor, saveEditor } from './reactor-actions.ts';
import { deletePages, findRecord, type Kind, namedList } from './resource-pages.ts';
import { addressOf, csrfField, may, notice, recordsTable, time } from './shell.ts';
import { findTokens } from './token-parts.ts';
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

// Creates a reactor: with a private formula of sample code, or with an official formula and the configuration that it asks for.

const KIND: Kind = { path: '/console/reactors', url: '/reactors', section: 'Reactors', noun: 'reactor' };

const PATH = KIND.path;

type Sample = Pick<Formula, 'code'> & { label: string; request_parameters: object[] };

const card = { name: 'card.number', type: 'string', description: 'The number of a card, or a card token as card' };

/** Code that runs as it is. */
const samples: Record<string, Sample> = {
  parts: {
    label: 'Take parts of a card number',
    request_parameters: [card],
    code: `// A reactor's code gets args, in which the values of tokens stand in the place of expressions.
// What is returned under \`raw\` goes to the caller; what is returned under \`tokenize\` becomes tokens.
module.exports = async (req) => {
  const { args, configuration, svc } = req;
  const { number } = args.card;

  return { raw: { bin: number.slice(0, 6), last4: number.slice(-4) } };
};
`,
  },
  call: {
    label: 'Send a card to an API',
    request_parameters: [card],
    code: `// The code says where the number goes, not its caller. What leaves is in the log, with its host.
const API = 'https://api.example.com/charges';

module.exports = async ({ args }) => {
  const response = await fetch(API, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ number: args.card.number }),
  });

  return { raw: { status: response.status } };
};
`,
  },
  store: {
    label: 'Make a token of a part',
    request_parameters: [card],
    code: `// The caller gets the token, and never the first six digits themselves.
module.exports = async ({ args }) => ({
  tokenize: { bin: { type: 'token', data: args.card.number.slice(0, 6) } },
});
`,
  },
};

const FIRST_SAMPLE = 'parts';

/** Official formulas that the form names. */
const OFFICIAL_MAX = 50;

/** What was refused, with what was typed. */
type Refused = {
  status: number;
  above: Html;
  name: string;
  from: string;
  configuration: Map<string, string>;
  problems: Map<string, string[]>;
};

/** An official one or the tenant's own; undefined for one that is not there. */
const findFormula = async (visit: Visit, id: string): Promise<Formula | undefined> => {
  if (!uuid.test(id)) return undefined;
  const answer = await visit.api({ method: 'GET', url: `/reactor-formulas/${id.toLowerCase()}` });
  return answer.status === 404 ? undefined : bodyOf<Formula>(answer);
};

const startLinks = (official: readonly { id: string; name: string }[], from: string): Html => {
  const link = (id: string, label: string): Html =>
    html`<a class="chip" href="${addressOf(PATH, { from: id })}#new"${id === from && html` aria-current="true"`}>${label}</a>`;
  return html`<nav class="chips" aria-label="Start from">${Object.entries(samples).map(([id, { label }]) => link(id, label))}${official.map(
    ({ id, name }) => link(id, name),
  )}</nav>`;
};

/** Undefined for a role that creates no reactors. */
const newForm = async (visit: Visit, refused?: Refused): Promise<Html | undefined> => {
  if (!may(visit.session, 'reactor:create')) return undefined;
  const official = await listOfficialNames(visit.ctx.db.for(visit.session), OFFICIAL_MAX);
  const asked = refused?.from ?? visit.query('from');
  const formula = await findFormula(visit, asked);
  const from = formula?.id ?? (Object.hasOwn(samples, asked) ? asked : FIRST_SAMPLE);
  const fields = formula?.configuration.map((element) =>
    elementField(
      element,
      refused?.configuration.get(element.name) ?? '',
      refused?.problems.get(`configuration.${element.name}`) ?? [],
    ),
  );
  return html`<section class="card" id="new"><h2>New reactor</h2>
${startLinks(official, from)}
<form method="post" action="${PATH}">${csrfField(visit.session)}<input type="hidden" name="from" value="${from}">
<label>Name<input name="name" value="${refused?.name}" required maxlength="200" autocomplete="off"></label>
${fields}
<p class="hint">${
    formula
      ? `It runs the ${formula.type} formula ${formula.name}. ${formula.description ?? ''}`
      : 'It gets a private formula of the same name with this sample code, which you can change.'
  }</p>
<button>Create reactor</button>
</form></section>`;
};

/** @returns the new reactor, or why there is none. */
const createReactor = async (submission: Submission): Promise<{ id: string } | Refused> => {
  const name = submission.field('name').trim();
  const from = submission.field('from');
  const configuration = new Map<string, string>();
  const refused = (answer: ApiAnswer): Refused => {
    const lines = [...problemLines(answer), tryAgain(answer)].filter((line) => line !== undefined);
    const above = problemsNotice('The reactor was not created.', lines);
    return { status: answer.status, above, name, from, configuration, problems: problemsByPlace(answer) };
  };
  const create = (json: object): Promise<ApiAnswer> => submission.api({ method: 'POST', url: '/reactors', json });
  if (uuid.test(from)) {
    const found = await submission.api({ method: 'GET', url: `/reactor-formulas/${from.toLowerCase()}` });
    if (!isSuccess(found)) return refused(found);
    const formula = found.body as Formula;
    for (const { name: element } of formula.configuration)
      configuration.set(element, linesOf(submission.field(`configuration.${element}`)));
    const typed = configurationOf({ reactor: { formula }, configuration });
    const made = await create({ name, formula: { id: formula.id }, configuration: typed });
    return isSuccess(made) ? (made.body as { id: string }) : refused(made);
  }
  const sample = (Object.hasOwn(samples, from) ? samples[from] : samples[FIRST_SAMPLE]) as Sample;
  const { code, request_parameters } = sample;
  const formula = await submission.api({
    method: 'POST',
    url: '/reactor-formulas',
    json: { code, configuration: [], request_parameters, name, type: 'private' },
  });
  if (!isSuccess(formula)) return refused(formula);
  const { id: formula_id } = formula.body as { id: string };
  const made = await create({ name, formula: { id: formula_id } });
  if (isSuccess(made)) return made.body as { id: string };
  // The formula was created for this reactor only.
  await submission.api({ method: 'DELETE', url: `/reactor-formulas/${formula_id}` });
  return refused(made);
};

/** Characters of the line above the editor. */
const LINE_LENGTH_MAX = 200;

const listTable = (reactors: readonly Reactor[]): Html =>
  recordsTable('Reactors', reactors, [
    { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${name}</a>` },
    {
      label: 'Formula',
      cell: ({ formula }) =>
        html`${formula.name}${formula.type === 'official' && html` <span class="badge">official</span>`}`,
    },
    { label: 'Application', cell: ({ application }) => application?.name ?? html`<span class="quiet">none</span>` },
    { label: 'Created', cell: ({ created_at }) => time(created_at) },
  ]);

const listPage = (visit: Visit, refused?: Refused): Promise<string> =>
  namedList<Reactor>(visit, KIND, {
    heading: html`<h1>Reactors</h1>`,
    above: html`${visit.query('done') === 'deleted' && notice('good', 'The reactor was deleted.')}${refused?.above}`,
    sample: 'Shop*',
    table: listTable,
    below: newForm(visit, refused),
  });

/** The line that a run names, with its text above the editor. Undefined for a line that the code does not have. */
const failedLine = (code: string, asked: string): { line: number; above: Html } | undefined => {
  const line = pageNumber(asked) === asked ? Number(asked) : 0;
  const text = linesOf(code).split('\n')[line - 1];
  if (text === undefined) return undefined;
  return {
    line,
    above: notice(
      'warn',
      html`<p>A run failed at <a href="#code">line ${line}</a>. The code may have changed since.</p><pre><code>${clipped(text.trim(), LINE_LENGTH_MAX)}</code></pre>`,
    ),
  };
};

export const reactorsPages = (console: Console): void => {
  console.get(PATH, (visit) => listPage(visit));

  console.postAfterCode(PATH, async (submission): Promise<Outcome> => {
    const made = await createReactor(submission);
    return 'id' in made
      ? { seeOther: `${PATH}/${made.id}?done=made` }
      : { status: made.status, page: await listPage(submission, made) };
  });

  console.get(`${PATH}/:id`, async (visit) => {
    const reactor = await findRecord<Reactor>(visit, KIND);
    const isNew = visit.query('done') === 'made';
    const editor = openEditor(reactor);
    const failed = failedLine(editor.code, visit.query('line'));
    const done = isNew ? notice('good', 'The reactor was created. You can change its code.') : restoredNotice(visit);
    const above = done ?? failed?.above;
    return editorPage(visit, { ...editor, codeLine: failed?.line, stepUp: visit.stepUp, above });
  });

  const act = async (submission: Submission): Promise<Outcome> => {
    const wanted = submission.field('do');
    const reactor = await findRecord<Reactor>(submission, KIND);
    const typed = readEditor(reactor, (name) => linesOf(submission.field(name)));
    if (wanted === 'test' || wanted === 'run')
      return editorPage(submission, await runReactor(submission, typed, wanted === 'test'));
    if (wanted === 'pick')
      return editorPage(submission, { ...typed, picked: await findTokens(submission, submission.field('last4')) });
    const { editor, status } = await saveEditor(submission, typed, wanted === 'deploy');
    return { status, page: await editorPage(submission, editor) };
  };
  console.postAfterCode(`${PATH}/:id`, act, ['code', 'args']);

  deletePages(console, KIND);
  versionPages(console, reactorCode);
};
