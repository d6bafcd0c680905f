// The reactor pages: lists reactors, creates one with sample code, tests, deploys, runs and restores it, all by the API.
import { html, type Html } from '../../platform/http/html.ts';
import { reactorCode, restoredNotice, versionPages } from './code-versions.ts';
import { idOf, linesOf } from './forms.ts';
import { clipped } from './list-parts.ts';
import { nameSearch, pageNumber, pagerOf, readNamedPage } from './pager.ts';
import { editorPage } from './reactor-editor.ts';
import { createReactor, newForm, type Refused } from './reactor-new.ts';
import { openEditor, readEditor, type Reactor } from './reactor-record.ts';
import { runReactor } from './reactor-trial.ts';
import { saveEditor } from './reactor-save.ts';
import { findTokens } from './token-picker.ts';
import { consolePage, empty, notice, recordsTable, time } from './shell.ts';
import { bodyOf, type Console, type Submission, type Outcome, type Visit } from './visit.ts';

const PATH = '/console/reactors';

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

const listPage = async (visit: Visit, refused?: Refused): Promise<string> => {
  const [{ name, data, pagination }, form] = await Promise.all([
    readNamedPage<Reactor>(visit, '/reactors'),
    newForm(visit, refused),
  ]);
  const nothing = name === '' ? 'No reactors yet.' : 'No reactors match.';
  return consolePage(visit.session, {
    title: 'Reactors',
    section: 'Reactors',
    main: html`<h1>Reactors</h1>
${visit.query('done') === 'deleted' && notice('good', 'The reactor was deleted.')}${refused?.above}
${nameSearch(PATH, name, 'Shop*')}
${data.length === 0 ? empty(nothing) : listTable(data)}
${pagerOf(pagination, { path: PATH, parameters: { name }, label: 'Pages of reactors' })}
${form}`,
  });
};

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

  const find = async (visit: Visit): Promise<Reactor> =>
    bodyOf<Reactor>(await visit.api({ method: 'GET', url: `/reactors/${idOf(visit, 'reactor')}` }));

  console.get(`${PATH}/:id`, async (visit) => {
    const reactor = await find(visit);
    const isNew = visit.query('done') === 'made';
    const editor = openEditor(reactor);
    const failed = failedLine(editor.code, visit.query('line'));
    const done = isNew ? notice('good', 'The reactor was created. You can change its code.') : restoredNotice(visit);
    const above = done ?? failed?.above;
    return editorPage(visit, { ...editor, codeLine: failed?.line, stepUp: visit.stepUp, above });
  });

  const act = async (submission: Submission): Promise<Outcome> => {
    const wanted = submission.field('do');
    const reactor = await find(submission);
    const typed = readEditor(reactor, (name) => linesOf(submission.field(name)));
    if (wanted === 'test' || wanted === 'run')
      return editorPage(submission, await runReactor(submission, typed, wanted === 'test'));
    if (wanted === 'pick')
      return editorPage(submission, { ...typed, picked: await findTokens(submission, submission.field('last4')) });
    const { editor, status } = await saveEditor(submission, typed, wanted === 'deploy');
    return { status, page: await editorPage(submission, editor) };
  };
  console.postAfterCode(`${PATH}/:id`, act, ['code', 'args']);

  console.postAfterCode(`${PATH}/:id/delete`, async (submission) => {
    const answer = await submission.api({ method: 'DELETE', url: `/reactors/${idOf(submission, 'reactor')}` });
    bodyOf(answer);
    return { seeOther: `${PATH}?done=deleted` };
  });
  versionPages(console, reactorCode);

  // A GET of a form's URL leads to the page.
  console.get(`${PATH}/:id/delete`, async (visit) => ({ seeOther: `${PATH}/${idOf(visit, 'reactor')}` }));
};
