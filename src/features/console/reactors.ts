// Reactors in the console: found, made with code to begin with, written, tried. Runs nothing itself: it asks the API.
import { html, type Html } from '../../http/html.ts';
import { comeAgain, idOf, linesOf, problemsNotice } from './forms.ts';
import { pageNumber, pagerOf, type Pagination } from './pager.ts';
import { editorPage } from './reactor-editor.ts';
import { openEditor, readEditor, type Reactor } from './reactor-record.ts';
import { runReactor } from './reactor-trial.ts';
import { saveEditor } from './reactor-save.ts';
import { addressOf, consolePage, csrfField, empty, notice, recordsTable, time } from './shell.ts';
import { bodyOf, type Console, type Deed, isSuccess, type Outcome, problemLines, type Visit } from './visit.ts';

const PATH = '/console/reactors';

/** Runs as it is, and shows what most code does: takes a value in, gives less of it out. */
const starter = {
  code: `// A reactor's code gets args, in which the values of tokens stand in the place of expressions.
// What is returned under \`raw\` goes to the caller; what is returned under \`tokenize\` becomes tokens.
module.exports = async (req) => {
  const { args, configuration, svc } = req;
  const { number } = args.card;

  return { raw: { bin: number.slice(0, 6), last4: number.slice(-4) } };
};
`,
  configuration: [],
  request_parameters: [
    { name: 'card.number', type: 'string', description: 'The number of a card, or a card token as card' },
  ],
};

type ListPage = { data: Reactor[]; pagination: Pagination };

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

const newForm = (visit: Visit, name: string): Html => html`<form method="post" action="${PATH}" class="card">
<h2>New reactor</h2>
${csrfField(visit.session)}
<label>Name<input name="name" value="${name}" required maxlength="200" autocomplete="off"></label>
<p class="hint">It comes with a private formula of the same name, and with code to begin with.</p>
<button>Create reactor</button>
</form>`;

const listPage = async (visit: Visit, above?: { problems: Html; name: string }): Promise<string> => {
  const name = visit.query('name');
  const page = pageNumber(visit.query('page'));
  const { data, pagination } = bodyOf<ListPage>(
    await visit.api({ method: 'GET', url: addressOf('/reactors', { name, page }) }),
  );
  const nothing = name === '' ? 'There is no reactor yet.' : 'No reactor has such a name.';
  return consolePage(visit.session, {
    title: 'Reactors',
    section: 'Reactors',
    main: html`<h1>Reactors</h1>
${visit.query('done') === 'deleted' && notice('good', 'The reactor is gone.')}${above?.problems}
<form method="get" action="${PATH}" class="filters">
<label>Name<input type="search" name="name" value="${name}" maxlength="400" placeholder="Shop*"></label>
<div class="actions"><button class="second">Find</button>${name !== '' && html`<a href="${PATH}">All</a>`}</div>
</form>
${data.length === 0 ? empty(nothing) : listTable(data)}
${pagerOf(pagination, { path: PATH, parameters: { name }, label: 'Pages of reactors' })}
${newForm(visit, above?.name ?? '')}`,
  });
};

export const reactorsPages = (console: Console): void => {
  console.get(PATH, (visit) => listPage(visit));

  console.post(PATH, async (deed) => {
    const name = deed.field('name').trim();
    const refused = async (heading: string, answer: Awaited<ReturnType<Visit['api']>>) => {
      const lines = [...problemLines(answer), comeAgain(answer)].filter((line) => line !== undefined);
      return { status: answer.status, page: await listPage(deed, { problems: problemsNotice(heading, lines), name }) };
    };
    const formula = await deed.api({
      method: 'POST',
      url: '/reactor-formulas',
      json: { ...starter, name, type: 'private' },
    });
    if (!isSuccess(formula)) return refused('The reactor was not made.', formula);
    const { id: formula_id } = formula.body as { id: string };
    const made = await deed.api({ method: 'POST', url: '/reactors', json: { name, formula: { id: formula_id } } });
    if (isSuccess(made)) return { seeOther: `${PATH}/${(made.body as Reactor).id}?done=made` };
    // A formula that nobody asked for is not left behind.
    await deed.api({ method: 'DELETE', url: `/reactor-formulas/${formula_id}` });
    return refused('The reactor was not made.', made);
  });

  const find = async (visit: Visit): Promise<Reactor> =>
    bodyOf<Reactor>(await visit.api({ method: 'GET', url: `/reactors/${idOf(visit, 'reactor')}` }));

  console.get(`${PATH}/:id`, async (visit) => {
    const reactor = await find(visit);
    const isNew = visit.query('done') === 'made';
    const above = isNew && notice('good', 'The reactor is made. Its code is yours to change.');
    return editorPage(visit.session, { ...openEditor(reactor), above });
  });

  const writeAndRun = async (deed: Deed): Promise<Outcome> => {
    const wanted = deed.field('do');
    const reactor = await find(deed);
    const typed = readEditor(reactor, (name) => linesOf(deed.field(name)));
    const saved = wanted === 'run' ? { editor: typed, status: 200 } : await saveEditor(deed, typed);
    const isFine = saved.status < 400;
    const editor = isFine && wanted !== 'save' ? await runReactor(deed, console, saved.editor) : saved.editor;
    const page = editorPage(deed.session, editor);
    return { status: isFine ? 200 : saved.status, page };
  };
  console.post(`${PATH}/:id`, writeAndRun, ['code', 'args']);

  console.post(`${PATH}/:id/delete`, async (deed) => {
    const answer = await deed.api({ method: 'DELETE', url: `/reactors/${idOf(deed, 'reactor')}` });
    bodyOf(answer);
    return { seeOther: `${PATH}?done=deleted` };
  });
  // The form answers there; who asks for it by itself wants the reactor.
  console.get(`${PATH}/:id/delete`, async (visit) => ({ seeOther: `${PATH}/${idOf(visit, 'reactor')}` }));
};
