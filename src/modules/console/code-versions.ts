// Versions of code, of a reactor, a formula or the transforms of a proxy: listed, compared with what runs, and restored.
import { notFound } from '../../platform/base/errors.ts';
import { html, type Html } from '../../platform/http/html.ts';
import type { Permission } from '../access/permissions.ts';
import { clipped, isolated, namesOf, pageNumber } from './list-parts.ts';
import { idOf } from './forms.ts';
import { diffLines } from './line-diff.ts';
import { addressOf, badge, consolePage, csrfField, may, notice, recordsTable, type Section, time } from './shell.ts';
import { bodyOf, type Console, type Visit } from './visit.ts';

/** What has versions. The path in the console is that of the API, but for formulas. */
type Kind = {
  path: string;
  api: string;
  noun: string;
  section: Section;
  permission: Permission;
  restores: string;
};

export const reactorCode: Kind = {
  path: '/console/reactors',
  api: '/reactors',
  noun: 'reactor',
  section: 'Reactors',
  permission: 'reactor:update',
  restores: 'All reactors of the formula run it from now on.',
};

export const proxyCode: Kind = {
  path: '/console/proxies',
  api: '/proxies',
  noun: 'proxy',
  section: 'Proxies',
  permission: 'proxy:update',
  restores: 'Requests run it from now on. All else of the proxy stays.',
};

export const formulaCode: Kind = {
  path: '/console/formulas',
  api: '/reactor-formulas',
  noun: 'formula',
  section: 'Formulas',
  permission: 'reactor:update',
  restores: 'All reactors of the formula run it from now on.',
};

type Version = { number: number; note?: string; created_by?: string; created_at: string };

type VersionWithCode = Version & {
  code?: string;
  request_transform?: { code: string };
  response_transform?: { code: string };
};

export type Versions = {
  /** Newest first: the first one runs. */
  rows: Version[];
  total: number;
  names: ReadonlyMap<string, string>;
};

/** Versions that the page lists. The API has them all. */
const SHOWN_MAX = 10;
/** Characters of code on the page of a version, which stays below 40 KB. The API has all of it. */
const CODE_SHOWN_MAX = 10_000;
const DIFF_SHOWN_MAX = 10_000;

/** Those of an official formula belong to the release: there are none. */
export const findVersions = async (visit: Visit, { api }: Kind, id: string, size = SHOWN_MAX): Promise<Versions> => {
  const url = addressOf(`${api}/${id}/versions`, { size: String(size) });
  const { data, pagination } = bodyOf<{ data: Version[]; pagination: { total_items: number } }>(
    await visit.api({ method: 'GET', url }),
  );
  const names = await namesOf(
    visit,
    data.map(({ created_by }) => created_by),
  );
  return { rows: data, total: pagination.total_items, names };
};

/** The number that the next deploy has. */
export const nextNumber = ({ rows: [newest] }: Pick<Versions, 'rows'>): number => (newest?.number ?? 0) + 1;

const authorOf = ({ created_by }: Version, names: Versions['names']): Html =>
  created_by === undefined
    ? html`<span class="quiet">the operator</span>`
    : html`<span title="${created_by}">${isolated(names.get(created_by) ?? 'a former member or application')}</span>`;

const restoreForm = (visit: Visit, kind: Kind, id: string, number: number, next: number): Html =>
  html`<details class="confirm calm"><summary>Restore<span class="unseen"> version ${number}</span></summary>
<p>Deploys the code of version ${number} as version ${next}. ${kind.restores}</p>
<form method="post" action="${kind.path}/${id}/restore">${csrfField(visit.session)}<input type="hidden" name="number" value="${number}"><button class="small">Restore version ${number}</button></form></details>`;

export const versionsCard = (visit: Visit, kind: Kind, id: string, versions: Versions): Html | undefined => {
  const { rows, total, names } = versions;
  const [newest] = rows;
  if (!newest) return undefined;
  const isLive = ({ number }: Version): boolean => number === newest.number;
  const columns = [
    {
      label: 'Version',
      cell: (row: Version) =>
        html`<a href="${kind.path}/${id}/versions/${row.number}"><span class="unseen">Version </span>${row.number}</a> ${isLive(row) && badge('live', 'good')}`,
    },
    { label: 'Deployed', cell: ({ created_at }: Version) => time(created_at) },
    { label: 'By', cell: (row: Version) => authorOf(row, names) },
    { label: 'Note', cell: ({ note }: Version) => note !== undefined && isolated(note) },
  ];
  const restore = {
    label: '',
    cell: (row: Version) => !isLive(row) && restoreForm(visit, kind, id, row.number, nextNumber(versions)),
  };
  return html`<section id="versions"><h2>Versions <span class="quiet">${total}</span></h2>
${recordsTable('Versions', rows, may(visit.session, kind.permission) ? [...columns, restore] : columns)}
${total > rows.length && html`<p class="quiet">The API has the ${total - rows.length} before.</p>`}</section>`;
};

/** Numbers of versions from a URL, which anyone can make: only numbers are shown. */
export const restoredNotice = (visit: Visit): Html | undefined => {
  const [version, live] = [visit.query('version'), visit.query('live')];
  const isDone = visit.query('done') === 'restored' && pageNumber(version) === version && pageNumber(live) === live;
  return isDone ? notice('good', `Version ${version} was restored. It runs now as version ${live}.`) : undefined;
};

/** @throws notFound for a number that no version has, such as one that would change the path. */
const numberIn = (text: string): string => {
  if (pageNumber(text) !== text) throw notFound('version');
  return text;
};

const codesOf = ({ code, request_transform, response_transform }: VersionWithCode): [name: string, code: string][] =>
  (
    [
      ['Code', code],
      ['Request transform', request_transform?.code],
      ['Response transform', response_transform?.code],
    ] as const
  ).flatMap(([name, text]) => (text === undefined ? [] : [[name, text]]));

const marks = { same: '  ', added: '+ ', removed: '- ', skipped: '⋯' } as const;

const diffBlock = (name: string, before: string, after: string): Html => {
  let left = DIFF_SHOWN_MAX;
  const lines = diffLines(before, after).filter(({ text }) => (left -= text.length + 1) >= 0);
  const shown = lines.map(({ kind, text }) => {
    const line = marks[kind] + text;
    if (kind === 'added') return html`<ins>${line}</ins>`;
    return kind === 'removed' ? html`<del>${line}</del>` : html`${line}\n`;
  });
  return html`<h2>${name}</h2>${
    before === after
      ? html`<p class="quiet">The same as what runs now.</p>`
      : html`<p class="quiet">What restoring it changes.</p><pre class="diff" tabindex="0" role="region" aria-label="Changes of ${name}"><code>${shown}</code></pre>${left < 0 && html`<p class="quiet">Cut off: there are more changes.</p>`}`
  }`;
};

const codeBlock = (name: string, text: string): Html =>
  html`<details><summary>${name}, whole</summary><pre tabindex="0" role="region" aria-label="${name}"><code>${clipped(text, CODE_SHOWN_MAX)}</code></pre>${
    text.length > CODE_SHOWN_MAX && html`<p class="quiet">Cut off: it has ${text.length} characters.</p>`
  }</details>`;

const versionPage = async (visit: Visit, kind: Kind): Promise<string> => {
  const id = idOf(visit, kind.noun);
  const number = numberIn(visit.param('number'));
  const read = async (each: string | number): Promise<VersionWithCode> =>
    bodyOf(await visit.api({ method: 'GET', url: `${kind.api}/${id}/versions/${each}` }));
  const [version, { rows }] = await Promise.all([read(number), findVersions(visit, kind, id, 1)]);
  const [newest = version] = rows;
  const live = version.number === newest.number ? version : await read(newest.number);
  const isLive = live === version;
  const [now, then] = [new Map(codesOf(live)), new Map(codesOf(version))];
  const names = await namesOf(visit, [version.created_by]);
  return consolePage(visit.session, {
    title: `Version ${number}`,
    section: kind.section,
    main: html`<p class="quiet"><a href="${kind.path}/${id}">Back to the ${kind.noun}</a></p>
<h1>Version ${number} ${isLive && badge('live', 'good')}</h1>
<p class="quiet">Deployed ${time(version.created_at)} by ${authorOf(version, names)}${version.note !== undefined && html`: ${isolated(version.note)}`}</p>
${!isLive && may(visit.session, kind.permission) && restoreForm(visit, kind, id, version.number, nextNumber({ rows }))}
<section class="card">${
      !isLive &&
      [...new Set([...now.keys(), ...then.keys()])].map((name) =>
        diffBlock(name, now.get(name) ?? '', then.get(name) ?? ''),
      )
    }
${[...then].map(([name, text]) => codeBlock(name, text))}${then.size === 0 && html`<p class="quiet">It has no code.</p>`}</section>`,
  });
};

/** The page of each version, and the form that restores one. */
export const versionPages = (console: Console, kind: Kind): void => {
  const { path, api, noun } = kind;
  console.get(`${path}/:id/versions/:number`, (visit) => versionPage(visit, kind));
  console.postAfterCode(`${path}/:id/restore`, async (submission) => {
    const id = idOf(submission, noun);
    const number = numberIn(submission.field('number'));
    const url = `${api}/${id}/versions/${number}/restore`;
    const { number: live } = bodyOf<{ number: number }>(
      await submission.api({ method: 'POST', url, json: {}, withAllGrants: true }),
    );
    return { seeOther: addressOf(`${path}/${id}`, { done: 'restored', version: number, live: String(live) }) };
  });
  // A GET of a form's URL leads to the page.
  console.get(`${path}/:id/restore`, async (visit) => ({ seeOther: `${path}/${idOf(visit, noun)}` }));
};
