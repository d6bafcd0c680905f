// Creates a reactor: with a private formula of sample code, or with an official formula and the configuration that it asks for.
import { html, type Html } from '../../platform/http/html.ts';
import { listOfficialNames } from '../code/rows/formulas.ts';
import { linesOf, problemsByPlace, problemsNotice, tryAgain, uuid } from './forms.ts';
import { elementField } from './reactor-editor.ts';
import { configurationOf, type Formula } from './reactor-record.ts';
import { addressOf, csrfField, may } from './shell.ts';
import { type ApiAnswer, bodyOf, isSuccess, problemLines, type Submission, type Visit } from './visit.ts';

const PATH = '/console/reactors';

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
export type Refused = {
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
export const newForm = async (visit: Visit, refused?: Refused): Promise<Html | undefined> => {
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
export const createReactor = async (submission: Submission): Promise<{ id: string } | Refused> => {
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
