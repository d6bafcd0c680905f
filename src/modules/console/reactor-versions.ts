// The versions of a reactor's code on its page: who deployed each, when and why, and how an earlier one is restored.
import { html, type Html } from '../../platform/http/html.ts';
import { namesOf } from './actor-names.ts';
import { isolated } from './list-parts.ts';
import { addressOf, badge, csrfField, may, recordsTable, time } from './shell.ts';
import { bodyOf, type Visit } from './visit.ts';

type Version = { number: number; note?: string; created_by?: string; created_at: string };

export type Versions = {
  /** Newest first: the first one runs. */
  rows: Version[];
  total: number;
  names: ReadonlyMap<string, string>;
};

/** Versions that the page lists. The API has them all. */
const SHOWN_MAX = 10;

/** Those of an official formula belong to the release: there are none. */
export const findVersions = async (visit: Visit, reactor_id: string): Promise<Versions> => {
  const url = addressOf(`/reactors/${reactor_id}/versions`, { size: String(SHOWN_MAX) });
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
export const nextNumber = ({ rows: [newest] }: Versions): number => (newest?.number ?? 0) + 1;

const authorOf = ({ created_by }: Version, names: Versions['names']): Html =>
  created_by === undefined
    ? html`<span class="quiet">the operator</span>`
    : html`<span title="${created_by}">${isolated(names.get(created_by) ?? 'a former member or application')}</span>`;

const restoreForm = (visit: Visit, reactor_id: string, number: number, next: number): Html =>
  html`<details class="confirm calm"><summary>Restore<span class="unseen"> version ${number}</span></summary>
<p>Deploys the code of version ${number} as version ${next}. All reactors of the formula run it from now on.</p>
<form method="post" action="/console/reactors/${reactor_id}/restore">${csrfField(visit.session)}<input type="hidden" name="number" value="${number}"><button class="small">Restore version ${number}</button></form></details>`;

export const versionsCard = (visit: Visit, reactor_id: string, versions: Versions): Html | undefined => {
  const { rows, total, names } = versions;
  const [newest] = rows;
  if (!newest) return undefined;
  const isLive = ({ number }: Version): boolean => number === newest.number;
  const columns = [
    {
      label: 'Version',
      cell: (row: Version) => html`${row.number} ${isLive(row) && badge('live', 'good')}`,
    },
    { label: 'Deployed', cell: ({ created_at }: Version) => time(created_at) },
    { label: 'By', cell: (row: Version) => authorOf(row, names) },
    { label: 'Note', cell: ({ note }: Version) => note !== undefined && isolated(note) },
  ];
  const restore = {
    label: '',
    cell: (row: Version) => !isLive(row) && restoreForm(visit, reactor_id, row.number, nextNumber(versions)),
  };
  return html`<section id="versions"><h2>Versions <span class="quiet">${total}</span></h2>
${recordsTable('Versions', rows, may(visit.session, 'reactor:update') ? [...columns, restore] : columns)}
${total > rows.length && html`<p class="quiet">The API has the ${total - rows.length} before.</p>`}</section>`;
};
