// The page of a reactor: code editor, test, deploy, versions, runs, configuration. Fields always show what was typed.
import { HOUR_MS } from '../../platform/base/times.ts';
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { NOTE_LENGTH_MAX } from '../code/versions.schema.ts';
import type { Session } from '../people/sessions.ts';
import { ANY_FAILURE, CHARTED_MAX, countRunsByHour } from '../runs/rows.ts';
import { findVersions, nextNumber, reactorCode, type Versions, versionsCard } from './code-versions.ts';
import { type ApiCall, copyMenu } from './copy.ts';
import { codeArea, echoGuardField, fieldProblem, invalidAttributes, typedText } from './forms.ts';
import { type Editor, type Formula, HIDDEN_CONFIGURATION, sampleArgs } from './reactor-record.ts';
import { RUNS_PATH } from './run-record.ts';
import { addressOf, badge, consolePage, csrfField, may } from './shell.ts';
import { pickerFields } from './token-parts.ts';
import type { Visit } from './visit.ts';

// The runs of a reactor in the last 24 hours as bars, with the same as a table, and links to the pages of runs.

const HOURS = 24;

const outcomes = ['success', 'refused', 'failed'] as const;

type Outcome = (typeof outcomes)[number];

/** Colours of the bars: classes of charts. */
const kinds: Record<Outcome, string> = { success: 'used', refused: 'revealed', failed: 'errors' };

type Hour = Record<Outcome, number> & { start: Date };

const BAR = 20;

const GAP = 3;

const HEIGHT = 60;

const sumOf = (hour: Hour): number => hour.success + hour.refused + hour.failed;

const clock = ({ start }: Hour): string => start.toISOString().slice(11, 16);

const bar = (hour: Hour, index: number, most: number): Html => {
  let y = HEIGHT;
  return html`<g><title>From ${clock(hour)} UTC: ${hour.success} success, ${hour.refused} refused, ${hour.failed} failed</title>${outcomes.map(
    (outcome) => {
      if (hour[outcome] === 0) return undefined;
      const height = Math.max(2, Math.round((HEIGHT * hour[outcome]) / most));
      y -= height;
      return html`<rect class="${kinds[outcome]}" x="${index * BAR}" y="${y}" width="${BAR - GAP}" height="${height}"/>`;
    },
  )}</g>`;
};

const table = (hours: readonly Hour[]): Html =>
  html`<details><summary>The same as a table</summary><div class="scroll" tabindex="0" role="region" aria-label="Runs by hour"><table class="figures"><thead><tr><th scope="col">From, in UTC</th>${outcomes.map(
    (outcome) => html`<th scope="col">${outcome}</th>`,
  )}</tr></thead><tbody>${hours
    .filter((hour) => sumOf(hour) > 0)
    .map(
      (hour) =>
        html`<tr><th scope="row">${clock(hour)}</th>${outcomes.map((outcome) => html`<td>${hour[outcome].toLocaleString('en')}</td>`)}</tr>`,
    )}</tbody></table></div></details>`;

/** Undefined for a role that does not read the log. */
const runsCard = async (visit: Visit, reactor_id: string): Promise<Html | undefined> => {
  if (!may(visit.session, 'log:read')) return undefined;
  const at = visit.ctx.now();
  const from = new Date(at.getTime() - HOURS * HOUR_MS);
  const counted = await countRunsByHour(visit.ctx.db.for(visit.session), {
    resource_id: reactor_id,
    from: firstIdAt(from.getTime()),
    at,
  });
  // The oldest first. Clocks of several servers differ a little: what seems to come is of the newest hour.
  const hours = Array.from({ length: HOURS }, (_, index): Hour => ({
    start: new Date(from.getTime() + index * HOUR_MS),
    success: 0,
    refused: 0,
    failed: 0,
  }));
  for (const { hour, outcome, count } of counted) {
    const bucket = hours[HOURS - 1 - Math.min(HOURS - 1, Math.max(0, hour))];
    if (bucket) bucket[outcome] += count;
  }
  const total = hours.reduce((sum, hour) => sum + sumOf(hour), 0);
  const failed = hours.reduce((sum, hour) => sum + hour.failed, 0);
  const most = Math.max(1, ...hours.map(sumOf));
  const words = `${total.toLocaleString('en')} ${total === 1 ? 'run' : 'runs'}, ${failed.toLocaleString('en')} failed`;
  const path = (outcome: string): string =>
    addressOf(RUNS_PATH, { outcome, resource_id: reactor_id, start_date: from.toISOString() });
  return html`<section class="card" id="runs"><div class="heading"><h2>Runs <span class="quiet">24 h: ${words}</span></h2>
<nav class="chips" aria-label="Runs"><a class="chip" href="${path('')}">All</a><a class="chip" href="${path(ANY_FAILURE)}">Failed</a></nav></div>
${
  total === 0
    ? html`<p class="quiet">No runs in the last 24 hours.</p>`
    : html`<svg class="chart day" viewBox="0 0 ${HOURS * BAR} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Runs of 24 hours: ${words}">${hours.map(
        (hour, index) => bar(hour, index, most),
      )}</svg>
${total >= CHARTED_MAX && html`<p class="quiet">The newest ${CHARTED_MAX.toLocaleString('en')} runs. There are more.</p>`}
${table(hours)}`
}</section>`;
};

const codeCard = (visit: Visit, { reactor, code, codeLine, problems }: Editor): Html => {
  const { formula } = reactor;
  const isOfficial = formula.type === 'official';
  return html`<section class="card"><div class="heading"><h2><label for="code">Code</label></h2>
<p class="facts"><span class="quiet">Formula ${formula.name}</span> ${isOfficial ? badge('official') : badge('private')}</p></div>
${isOfficial && html`<p class="hint">An official formula: its code is the operator's, and cannot be changed here.</p>`}
${codeArea({ name: 'code', text: code, line: codeLine, problems: problems.get('code') ?? [], isReadOnly: isOfficial })}
<p class="hint">${!isOfficial && 'All reactors of this formula run this code. '}Escape, then Tab, leaves the editor. Ctrl and Enter tests the draft.</p>
${copyMenu(visit, { id: formula.id, call: { path: `/reactor-formulas/${formula.id}` }, kind: 'formula' })}
</section>`;
};

/** Errors of properties of the args are shown with the args. */
const argsProblems = (problems: Editor['problems']): string[] =>
  [...problems].flatMap(([place, sentences]) => (place === 'args' ? sentences : []));

const parametersList = ({ request_parameters }: Formula): Html | false =>
  request_parameters.length > 0 &&
  html`<details><summary>Parameters of the formula</summary><dl>${request_parameters.map(
    ({ name, type, optional, description }) =>
      html`<dt><code>${name}</code></dt><dd>${type}${optional && ', may be left out'}${description !== undefined && `. ${description}`}</dd>`,
  )}</dl></details>`;

/** What the role may do with code, as the API asks for it. */
const rightsOf = (session: Session, { reactor }: Editor) => ({
  canTest: may(session, 'reactor:update'),
  canRun: may(session, 'token:use'),
  canDeploy: may(session, 'reactor:update') && reactor.formula.type !== 'official',
});

const testCard = (visit: Visit, editor: Editor): Html | undefined => {
  const { session } = visit;
  const { reactor, args, argsLine, problems } = editor;
  const { canTest, canRun } = rightsOf(session, editor);
  if (!canTest && !canRun) return undefined;
  return html`<section class="card">
<h2><label for="args">Arguments</label></h2>
${codeArea({ name: 'args', text: args, line: argsLine, problems: argsProblems(problems), isShort: true })}
<p class="hint">JSON. A text such as <code>"{{ token id }}"</code> becomes the value of the token: the whole card for the id of a card. Plain samples work too. Nothing that you type here is kept.</p>
${parametersList(reactor.formula)}
${pickerFields(visit, editor.picked)}
<div class="actions">${canTest && html`<button name="do" value="test" class="second" data-main>Test draft</button>`}
${canRun && html`<button name="do" value="run" class="second">Run</button>`}</div>
<p class="hint">${canTest && 'Test draft runs the code as typed, without deploying it. Deploy takes effect now. '}Run runs the deployed code. Its calls have their effects.</p>
</section>`;
};

const FORM = 'editor';

/** In the heading, where it is seen with any length of code. Code that a reactor was created with takes no note. */
const deployActions = (session: Session, editor: Editor, versions: Versions): Html | undefined => {
  if (!rightsOf(session, editor).canDeploy) return undefined;
  const problems = editor.problems.get('note') ?? [];
  const note = html`<input form="${FORM}" name="note" value="${editor.note}" maxlength="${NOTE_LENGTH_MAX}" aria-label="Note" placeholder="Note: why it is deployed" autocomplete="off"${invalidAttributes('note-problem', problems)}>`;
  return html`<div class="actions deploy">${editor.reactor.code === undefined && note}<button form="${FORM}" name="do" value="deploy">Deploy version ${nextNumber(versions)}</button>${fieldProblem('note-problem', problems)}</div>`;
};

/** A field of the configuration that a formula asks for. */
export const elementField = (
  { name, type, description }: Formula['configuration'][number],
  value: string,
  sentences: readonly string[],
): Html => {
  const field = `configuration.${name}`;
  const problem = `${field}-problem`;
  const more = html`name="${field}"${invalidAttributes(problem, sentences)}`;
  const input =
    type === 'boolean'
      ? html`<select ${more}>${['', 'true', 'false'].map(
          (each) =>
            html`<option value="${each}"${attribute('selected', each === value)}>${each === '' ? 'not set' : each}</option>`,
        )}</select>`
      : type === 'number'
        ? html`<input ${more} value="${value}" inputmode="decimal" autocomplete="off">`
        : html`<textarea ${more} class="line" rows="1" spellcheck="false" autocapitalize="off" autocomplete="off">${typedText(value)}</textarea>`;
  return html`<label><span class="mono">${name}</span>${description !== undefined && html`<small>${description}</small>`}${input}${fieldProblem(problem, sentences)}</label>`;
};

/** The names alone before the second factor: values may be keys of other services. */
const configurationPart = ({ reactor, configuration, problems, stepUp }: Editor): Html => {
  const elements = reactor.formula.configuration;
  if (elements.length === 0) return html`<p class="hint">The formula asks for no configuration.</p>`;
  if (stepUp !== undefined)
    return html`<p>${elements.map(({ name }) => html`<code>${name}</code> `)}</p>
<p><a href="${stepUp}">Show the configuration</a> <span class="hint">after your second factor.</span></p>
<input type="hidden" name="${HIDDEN_CONFIGURATION}" value="yes">`;
  return html`${elements.map((element) =>
    elementField(element, configuration.get(element.name) ?? '', problems.get(`configuration.${element.name}`) ?? []),
  )}`;
};

/** Closed, because it may contain keys of other services; open if it has an error. */
const settingsCard = (session: Session, editor: Editor): Html => {
  const { reactor, name, problems } = editor;
  const { application } = reactor;
  const isFaulty = [...problems.keys()].some(
    (place) => place === 'name' || place === 'echo_guard' || place.startsWith('configuration'),
  );
  const whole = problems.get('configuration') ?? [];
  const nameProblems = problems.get('name') ?? [];
  return html`<section class="card"><details${attribute('open', isFaulty)}><summary>Name and configuration</summary>
<label>Name<input name="name" value="${name}" autocomplete="off" maxlength="400"${invalidAttributes('name-problem', nameProblems)}>${fieldProblem('name-problem', nameProblems)}</label>
${echoGuardField({ typed: { echo_guard: editor.echo_guard }, problems })}
${fieldProblem('configuration-problem', whole)}
${configurationPart(editor)}
<p class="hint">${
    application
      ? `The code can do what the application ${application.name} can.`
      : 'The reactor has no application: svc is null in its code.'
  }</p>${may(session, 'reactor:update') && html`<button name="do" value="save" class="second">Save name and configuration</button>`}</details></section>`;
};

const deleteForm = (
  session: Session,
  { reactor }: Editor,
): Html => html`<section class="card"><details><summary>Delete this reactor</summary>
<p>Requests to it will get a 404. Its formula stays.</p>
<form method="post" action="/console/reactors/${reactor.id}/delete">${csrfField(session)}<button class="danger">Delete ${reactor.name}</button></form></details></section>`;

/** With the arguments that the formula asks for. */
const reactCall = ({ id, formula }: Editor['reactor']): ApiCall => ({
  path: `/reactors/${id}/react`,
  json: { args: JSON.parse(sampleArgs(formula)) as unknown },
});

export const editorPage = async (visit: Visit, editor: Editor): Promise<string> => {
  const { session } = visit;
  const { reactor, above, seen } = editor;
  const [versions, runs] = await Promise.all([
    findVersions(visit, reactorCode, reactor.id),
    runsCard(visit, reactor.id),
  ]);
  const [live] = versions.rows;
  return consolePage(session, {
    title: reactor.name,
    section: 'Reactors',
    main: html`<p class="quiet"><a href="/console/reactors">Reactors</a></p>
<div class="heading"><h1>${reactor.name} ${live && html`<a href="#versions">${badge(`live: version ${live.number}`, 'good')}</a>`}</h1>${deployActions(session, editor, versions)}</div>
${copyMenu(visit, { id: reactor.id, call: reactCall(reactor) })}
${above}
<form id="${FORM}" method="post" action="/console/reactors/${reactor.id}" class="columns" autocomplete="off">
${csrfField(session)}<input type="hidden" name="seen" value="${seen}">
<div>${codeCard(visit, editor)}</div>
<div>${testCard(visit, editor)}
${settingsCard(session, editor)}</div>
</form>
${runs}
${versionsCard(visit, reactorCode, reactor.id, versions)}
${may(session, 'reactor:delete') && deleteForm(session, editor)}`,
  });
};
