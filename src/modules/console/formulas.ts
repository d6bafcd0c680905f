// The pages of formulas: the list of official ones and the tenant's own, and one with its code, contracts and versions.
import { html, type Html } from '../../platform/http/html.ts';
import { findVersions, formulaCode, restoredNotice, versionPages, versionsCard } from './code-versions.ts';
import { copyMenu } from './copy.ts';
import { confirmed, idOf, problemsNotice } from './forms.ts';
import { formulaFormPages } from './formula-form.ts';
import { clipped, isolated } from './list-parts.ts';
import { nameSearch, pagerOf, readNamedPage } from './pager.ts';
import type { Formula } from './reactor-record.ts';
import { addressOf, badge, consolePage, empty, may, notice, recordsTable, time } from './shell.ts';
import { bodyOf, type Console, isSuccess, problemLines, type Visit } from './visit.ts';

const PATH = formulaCode.path;

/** Characters of the code on the page, which stays below 40 KB. The API has all of it. */
const CODE_SHOWN_MAX = 12_000;
const DESCRIPTION_SHOWN_MAX = 200;

const typeBadge = ({ type }: Formula): Html => (type === 'official' ? badge('official', 'good') : badge('private'));

const makeLink = ({ id, name }: Formula): Html =>
  html`<a href="${addressOf('/console/reactors', { from: id })}#new">Make a reactor<span class="unseen"> from ${name}</span></a>`;

const listPage = async (visit: Visit): Promise<string> => {
  const { name, data, pagination } = await readNamedPage<Formula>(visit, '/reactor-formulas');
  const columns = [
    { label: 'Name', cell: (each: Formula) => html`<a href="${PATH}/${each.id}">${isolated(each.name)}</a>` },
    { label: 'Type', cell: typeBadge },
    {
      label: 'What it does',
      cell: ({ description }: Formula) =>
        description !== undefined && isolated(clipped(description, DESCRIPTION_SHOWN_MAX)),
    },
    ...(may(visit.session, 'reactor:create') ? [{ label: '', cell: makeLink }] : []),
  ];
  return consolePage(visit.session, {
    title: 'Formulas',
    section: 'Formulas',
    main: html`<h1>Formulas</h1>
${visit.query('done') === 'deleted' && notice('good', 'The formula was deleted.')}
<p class="quiet">Code that reactors run. Official formulas are the operator's; a reactor made from a sample has a private one of its own.</p>
${nameSearch(PATH, name, 'Card*')}
${data.length === 0 ? empty(name === '' ? 'No formulas yet.' : 'No formulas match.') : recordsTable('Formulas', data, columns)}
${pagerOf(pagination, { path: PATH, parameters: { name }, label: 'Pages of formulas' })}`,
  });
};

const elements = (heading: string, found: readonly Formula['request_parameters'][number][]): Html | undefined =>
  found.length === 0
    ? undefined
    : html`<h3>${heading}</h3><dl>${found.map(
        ({ name, type, optional, description }) =>
          html`<dt><code>${name}</code></dt><dd>${type}${optional && ', may be left out'}${description !== undefined && html`. ${isolated(description)}`}</dd>`,
      )}</dl>`;

const onePage = async (visit: Visit, above?: Html): Promise<string> => {
  const { session } = visit;
  const id = idOf(visit, 'formula');
  const formula = bodyOf<Formula>(await visit.api({ method: 'GET', url: `/reactor-formulas/${id}` }));
  const isOfficial = formula.type === 'official';
  const versions = isOfficial ? undefined : await findVersions(visit, formulaCode, id);
  const { name, description, code, configuration, request_parameters, created_at } = formula;
  return consolePage(session, {
    title: name,
    section: 'Formulas',
    main: html`<p class="quiet"><a href="${PATH}">Formulas</a></p>
<div class="heading"><h1>${isolated(name)} ${typeBadge(formula)}</h1><span class="actions">${!isOfficial && may(session, 'reactor:update') && html`<a class="button second" href="${PATH}/${id}/edit">Change</a>`}${may(session, 'reactor:create') && html`<a class="button" href="${addressOf('/console/reactors', { from: id })}#new">Make a reactor</a>`}</span></div>
${copyMenu(visit, { id, call: { path: `/reactor-formulas/${id}` } })}
${above ?? restoredNotice(visit)}
${visit.query('done') === 'saved' && notice('good', 'The formula was saved. Its reactors are held to it from their next run.')}
<section class="card">${description !== undefined && html`<p>${isolated(description)}</p>`}
<p class="quiet">Created ${time(created_at)}</p>
<h2>Code</h2><pre tabindex="0" role="region" aria-label="Code"><code>${clipped(code, CODE_SHOWN_MAX)}</code></pre>
${code.length > CODE_SHOWN_MAX && html`<p class="quiet">Cut off: it has ${code.length} characters.</p>`}
<p class="hint">${isOfficial ? 'It cannot be changed here.' : 'It is changed on the page of a reactor that runs it.'}</p>
${elements(
  'Configuration',
  configuration.map((each) => ({ ...each, optional: false })),
)}
${elements('Parameters', request_parameters)}
${
  !isOfficial &&
  may(session, 'reactor:delete') &&
  confirmed(session, {
    action: `${PATH}/${id}/delete`,
    summary: 'Delete this formula',
    question: 'Its code and versions are gone. A formula with reactors stays.',
    button: 'Delete the formula',
  })
}</section>
${versions && versionsCard(visit, formulaCode, id, versions)}`,
  });
};

export const formulasPages = (console: Console): void => {
  console.get(PATH, listPage);
  console.get(`${PATH}/:id`, (visit) => onePage(visit));
  formulaFormPages(console);
  versionPages(console, formulaCode);
  console.get(`${PATH}/:id/delete`, async (visit) => ({ seeOther: `${PATH}/${idOf(visit, 'formula')}` }));
  console.postAfterCode(`${PATH}/:id/delete`, async (submission) => {
    const answer = await submission.api({ method: 'DELETE', url: `/reactor-formulas/${idOf(submission, 'formula')}` });
    if (isSuccess(answer)) return { seeOther: addressOf(PATH, { done: 'deleted' }) };
    if (answer.status !== 409) bodyOf(answer);
    const above = problemsNotice('The formula was not deleted.', problemLines(answer));
    return { status: 409, page: await onePage(submission, above) };
  });
};
