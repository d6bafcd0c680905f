// The page of a reactor: code editor, test, deploy, versions, runs, configuration. Fields always show what was typed.
import { attribute, html, type Html } from '../../platform/http/html.ts';
import { NOTE_LENGTH_MAX } from '../code/versions.schema.ts';
import type { Session } from '../people/sessions.ts';
import { findVersions, nextNumber, reactorCode, type Versions, versionsCard } from './code-versions.ts';
import { type ApiCall, copyMenu } from './copy.ts';
import { echoGuardField } from './form-fields.ts';
import { codeArea, invalidAttributes, fieldProblem, typedText } from './forms.ts';
import { type Editor, type Formula, HIDDEN_CONFIGURATION, sampleArgs } from './reactor-record.ts';
import { runsCard } from './reactor-runs.ts';
import { pickerFields } from './token-picker.ts';
import { badge, consolePage, csrfField, may } from './shell.ts';
import type { Visit } from './visit.ts';

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
