// The timeline of a token on its page, as a picture and as a list: where its value went, and who read its mask.
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../platform/base/times.ts';
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import { clipped, isolated } from './list-parts.ts';
import { badge, may, recordsTable, time } from './shell.ts';
import { tokenPath, tokenUrl } from './token-parts.ts';
import { bodyOf, type Visit } from './visit.ts';

type Counts = { count: number; first_at: string; last_at: string };

/** Equal entries of the log, as the API folds them. */
type TimelineEntry = Counts & {
  operation: string;
  message: string;
  reason?: string;
  outcome: string;
  disclosure: string;
  actor_type?: string;
  actor_id?: string;
  actor_name?: string;
  reactor_id?: string;
  reactor_name?: string;
  proxy_id?: string;
  proxy_name?: string;
  destination_host?: string;
  is_list?: true;
};

export type Timeline = {
  token_ids: string[];
  has_more_tokens?: true;
  count: number;
  first_at?: string;
  last_at?: string;
  entries: TimelineEntry[];
  has_more_entries?: true;
  destinations: (Counts & { destination_host: string; failed: number })[];
  has_more_destinations?: true;
  since?: string;
};

/** Undefined for a role that does not read the log: nothing is asked of the API, so that no refusal is logged. */
export const findTimeline = async (visit: Visit, id: string): Promise<Timeline | undefined> =>
  may(visit.session, 'log:read')
    ? bodyOf<Timeline>(await visit.api({ method: 'GET', url: `${tokenUrl(id)}/timeline` }))
    : undefined;

/** Rows of each list on the page, which stays below 40 KB. The raw log has all of them. */
const SHOWN_MAX = 8;

const SAME_MAX = 5;

/** Characters of a host, or of names together. */
const NAME_LENGTH_MAX = 80;

/** A kind of place to which a value went. */
type Place = Counts & {
  kind: 'host' | 'code' | 'shown';
  name: string;
  /** How it got there, in words. */
  by: string;
  /** What happened there, in the plural and in the singular. */
  words: readonly [one: string, many: string];
  failed: number;
};

const actorWords: Record<string, string> = {
  application: 'a deleted application',
  user: 'a former member',
  session: 'a session',
  operator: 'the operator',
  system: 'the vault',
};

const actorOf = ({ actor_name, actor_type }: TimelineEntry): string =>
  actor_name ?? actorWords[actor_type ?? ''] ?? 'an anonymous client';

const add = (sum: Counts | undefined, { count, first_at, last_at }: Counts): Counts =>
  sum
    ? {
        count: sum.count + count,
        first_at: sum.first_at < first_at ? sum.first_at : first_at,
        last_at: sum.last_at > last_at ? sum.last_at : last_at,
      }
    : { count, first_at, last_at };

const sumOf = (entries: readonly TimelineEntry[]): Counts | undefined =>
  entries.reduce<Counts | undefined>(add, undefined);

/** The names of these entries, each once. */
const namesIn = (names: readonly (string | undefined)[]): string =>
  clipped([...new Set(names.filter((name) => name !== undefined))].join(', '), NAME_LENGTH_MAX);

/** A row of the log is written before the value leaves: a row `failed` says that a use ended badly, and is none itself. */
const didLeave = ({ outcome, disclosure }: TimelineEntry): boolean =>
  outcome !== 'refused' && outcome !== 'failed' && (disclosure === 'used' || disclosure === 'revealed');

const hostsOf = ({ destinations, entries }: Timeline): Place[] =>
  destinations.map(({ destination_host: name, ...counts }) => {
    const sent = entries.filter(({ destination_host }) => destination_host === name);
    const by = namesIn(sent.map(({ proxy_name, actor_name }) => proxy_name ?? actor_name));
    return { kind: 'host', name: clipped(name, NAME_LENGTH_MAX), by, words: ['use', 'uses'], ...counts };
  });

/** Code got the value. What it did with it, the log does not say. */
const codeOf = ({ entries }: Timeline): Place[] => {
  const used = entries.filter(
    (entry) => didLeave(entry) && entry.disclosure === 'used' && entry.destination_host === undefined,
  );
  const byCode = Map.groupBy(used, ({ reactor_id, proxy_id }) => reactor_id ?? proxy_id ?? '');
  return [...byCode.values()].flatMap((of) => {
    const counts = sumOf(of);
    const name = of[0]?.reactor_name ?? of[0]?.proxy_name ?? 'code';
    const by = namesIn(of.map(actorOf));
    return counts ? [{ kind: 'code', name, by, words: ['use', 'uses'], failed: 0, ...counts }] : [];
  });
};

const shownOf = ({ entries }: Timeline): Place[] => {
  const revealed = entries.filter((entry) => didLeave(entry) && entry.disclosure === 'revealed');
  const counts = sumOf(revealed);
  const by = namesIn(revealed.map(actorOf));
  return counts
    ? [{ kind: 'shown', name: 'left in plain text', by, words: ['reveal', 'reveals'], failed: 0, ...counts }]
    : [];
};

/** Destinations of the value: who saw it first of all, then hosts and code, the last used ones first. */
const placesOf = (timeline: Timeline): Place[] => [
  ...shownOf(timeline),
  ...[...hostsOf(timeline), ...codeOf(timeline)].toSorted((a, b) => b.last_at.localeCompare(a.last_at)),
];

/** Source of the value: the first entry that made one of its tokens. */
const sourceOf = ({ entries }: Timeline): { name: string; counts: Counts } | undefined => {
  const made = entries.filter(({ operation, outcome }) => operation === 'create' && outcome === 'success');
  const counts = sumOf(made);
  const [first] = made.toSorted((a, b) => a.first_at.localeCompare(b.first_at));
  return first && counts ? { name: actorOf(first), counts } : undefined;
};

const placeKinds = { host: 'destination', code: 'code', shown: 'plain text' } as const;

/** The picture in words, with the times that it has no room for. */
const placesTable = (places: readonly Place[]): Html => {
  const shown = places.slice(0, SHOWN_MAX);
  return html`<details><summary>Values that left, as a table</summary>
${recordsTable('Values that left', shown, [
  {
    label: 'Where to',
    cell: ({ name, kind }) =>
      html`${isolated(name)} <span class="quiet">${kind !== 'shown' && placeKinds[kind]}</span>`,
  },
  { label: 'By', cell: ({ by }) => isolated(by) },
  { label: 'Times', cell: ({ count }) => count.toLocaleString('en') },
  { label: 'Failed', cell: ({ failed }) => failed > 0 && badge(failed.toLocaleString('en'), 'bad') },
  { label: 'First', cell: ({ first_at }) => time(first_at) },
  { label: 'Last', cell: ({ last_at }) => time(last_at) },
])}${places.length > shown.length && html`<p class="quiet">and ${places.length - shown.length} more</p>`}</details>`;
};

/** What an entry says, the colour of its dot, and who did it. */
type Line = { kind: 'used' | 'revealed' | 'errors' | 'stored' | ''; what: HtmlValue };

const link = (path: string, name: string, mayOpen: boolean): Html =>
  mayOpen ? html`<a href="${path}">${isolated(name)}</a>` : isolated(name);

const codeLine = (
  visit: Visit,
  { reactor_id, reactor_name, proxy_id, proxy_name }: TimelineEntry,
): Html | undefined => {
  if (reactor_id !== undefined && reactor_name !== undefined)
    return link(`/console/reactors/${reactor_id}`, reactor_name, may(visit.session, 'reactor:read'));
  if (proxy_id !== undefined && proxy_name !== undefined)
    return link(`/console/proxies/${proxy_id}`, proxy_name, may(visit.session, 'proxy:read'));
  return undefined;
};

const lineOf = (entry: TimelineEntry, code: Html | undefined): Line => {
  const { operation, message, outcome, disclosure, destination_host } = entry;
  const who = isolated(actorOf(entry));
  const through = code && html` through ${code}`;
  if (outcome === 'refused') return { kind: 'errors', what: html`<b>${message}</b> for ${who}` };
  if (outcome === 'failed')
    return {
      kind: 'errors',
      what: html`<b>Failed</b>: ${message}${destination_host !== undefined && html`, sent to ${isolated(clipped(destination_host, NAME_LENGTH_MAX))}`}, by ${who}${through}`,
    };
  if (disclosure === 'revealed')
    return {
      kind: 'revealed',
      what: html`<b>Revealed</b> to ${who}${through}${outcome === 'replayed' && ', a repeated answer'}${entry.reason !== undefined && html`: ${isolated(entry.reason)}`}`,
    };
  if (destination_host !== undefined && disclosure === 'used')
    return {
      kind: 'used',
      what: html`<b>Sent to ${isolated(clipped(destination_host, NAME_LENGTH_MAX))}</b> by ${who}${through}`,
    };
  if (disclosure === 'used')
    return { kind: 'used', what: html`<b>Used${code ? html` by code</b> of ${code}` : html`</b>`} for ${who}` };
  if (operation === 'create') return { kind: 'stored', what: html`<b>Created</b> by ${who}` };
  return { kind: '', what: html`<b>${message}</b> by ${who}` };
};

const whenOf = ({ count, first_at, last_at }: Counts): Html =>
  count > 1
    ? html`${badge(`${count.toLocaleString('en')} times`)} <span class="quiet">${time(first_at)} to ${time(last_at)}</span>`
    : html`<span class="quiet">${time(last_at)}</span>`;

const isOfMask = ({ disclosure, outcome, operation }: TimelineEntry): boolean =>
  operation === 'read' && outcome === 'success' && (disclosure === 'masked' || disclosure === 'none');

const maskReads = (entries: readonly TimelineEntry[]): Html | undefined => {
  const reads = entries.filter(isOfMask);
  if (reads.length === 0) return undefined;
  const count = reads.reduce((sum, each) => sum + each.count, 0);
  return html`<details><summary>Reads of the mask <span class="quiet">${count.toLocaleString('en')}</span></summary>
${recordsTable('Reads of the mask', reads.slice(0, SHOWN_MAX), [
  { label: 'Who', cell: (entry) => isolated(actorOf(entry)) },
  { label: 'How', cell: ({ is_list }) => (is_list ? 'in a list' : 'alone') },
  { label: 'Times', cell: (entry) => entry.count.toLocaleString('en') },
  { label: 'Last', cell: ({ last_at }) => time(last_at) },
])}</details>`;
};

export const timelineCard = (visit: Visit, id: string, timeline: Timeline): Html => {
  const { entries, since, has_more_entries } = timeline;
  const events = entries.filter((entry) => !isOfMask(entry));
  const shown = events.slice(0, SHOWN_MAX);
  const isMore = events.length > shown.length || has_more_entries === true;
  const log = `/console/logs?${new URLSearchParams({ entity_id: id }).toString()}`;
  return html`<section class="card" id="timeline"><div class="heading"><h2>Timeline</h2><a href="${log}">Raw log</a></div>
${since !== undefined && html`<p class="quiet">Since ${time(since)}. Earlier entries are in the raw log.</p>`}
${
  shown.length === 0
    ? html`<p class="quiet">Nothing but reads of the mask.</p>`
    : html`<ul class="timeline">${shown.map((entry) => {
        const { kind, what } = lineOf(entry, codeLine(visit, entry));
        return html`<li class="${kind}">${what} ${whenOf(entry)}</li>\n`;
      })}</ul>`
}
${isMore && html`<p class="quiet">Older entries are in the raw log.</p>`}
${maskReads(entries)}</section>`;
};

/** The other tokens of the same value, of which the caller sees that they are equal. */
export const sameTokens = (id: string, { token_ids, has_more_tokens }: Timeline): Html | undefined => {
  const others = token_ids.filter((other) => other !== id);
  const shown = others.slice(0, SAME_MAX);
  if (shown.length === 0) return undefined;
  const isMore = others.length > shown.length || has_more_tokens === true;
  return html`${shown.map((other) => html`<a href="${tokenPath(other)}"><bdi>${other}</bdi></a><br>`)}${isMore && html`<span class="quiet">and more</span>`}`;
};

// "Where has this card been?" as inline SVG: its source, the vault, and each place to which the value went.

/** Places that the picture draws. The table below it has the others. */
const PLACES_MAX = 6;

const units = [
  ['d', DAY_MS],
  ['h', HOUR_MS],
  ['min', MINUTE_MS],
] as const;

/** How long ago, by the largest unit. */
const agoOf = (at: string, now: Date): string => {
  const ms = Math.max(0, now.getTime() - Date.parse(at));
  const [unit, length] = units.find(([, each]) => ms >= each) ?? ['s', 1_000];
  return `${Math.floor(ms / length)} ${unit} ago`;
};

/** Widths of text are guessed: SVG does not wrap, and the server has no fonts. */
const SMALL_WIDTH = 6.4;

const BOLD_WIDTH = 8;

const fitted = (text: string, width: number, each: number): string => clipped(text, Math.floor(width / each));

const ID_HEAD = 8;

const ID_TAIL = 4;

/** An id as people compare it. The page has it whole above the picture. */
const shortId = (id: string): string => {
  const characters = [...id];
  if (characters.length <= ID_HEAD + ID_TAIL + 1) return id;
  return `${characters.slice(0, ID_HEAD).join('')}…${characters.slice(-ID_TAIL).join('')}`;
};

/** A box with a name, and a quiet line. The title has the whole name. */
const box = (at: { x: number; y: number; width: number }, kind: string, name: string, note: string): Html => {
  const { x, y, width } = at;
  const middle = x + width / 2;
  return html`<g class="${kind}"><title>${name}</title><rect x="${x}" y="${y}" width="${width}" height="${BOX}" rx="8"/>
<text class="name" x="${middle}" y="${y + 20}">${fitted(name, width - 16, BOLD_WIDTH)}</text><text class="note" x="${middle}" y="${y + 37}">${fitted(note, width - 16, SMALL_WIDTH)}</text></g>`;
};

const BOX = 48;

const ROW = 64;

const kindOf = ({ kind }: Place): string => (kind === 'shown' ? 'revealed' : 'used');

const noteOf = ({ kind, failed }: Place): string => {
  if (kind === 'shown') return 'seen by people or servers';
  if (failed > 0) return `${failed.toLocaleString('en')} failed`;
  return kind === 'code' ? 'code in the sandbox' : 'destination';
};

const usesOf = ({ count, words: [one, many], last_at }: Place, now: Date): string =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}, last ${agoOf(last_at, now)}`;

type Drawn = {
  /** The masked value. */
  name: string;
  id: string;
  source: { name: string; note: string; line: string };
  places: readonly Place[];
  now: Date;
};

/** Three columns, for a page at a desk. */
const WIDE = { width: 960, box: 190, source: 0, vault: 300, place: 770, from: 490, bend: 540 } as const;

const wide = ({ name, id, source, places, now }: Drawn): Html => {
  const height = Math.max(1, places.length) * ROW;
  const middle = height / 2;
  const top = middle - BOX / 2;
  const { width, from, bend, place: x } = WIDE;
  const room = x - bend - 16;
  return html`<svg class="flow desk" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="been">
${box({ x: WIDE.source, y: top, width: WIDE.box }, 'source', source.name, source.note)}
<g class="stored"><path d="M${WIDE.box} ${middle}H${WIDE.vault - 8}"/><path class="head" d="M${WIDE.vault - 8} ${middle - 4}l7 4l-7 4z"/><text class="note" x="${(WIDE.box + WIDE.vault) / 2}" y="${middle - 8}">${source.line}</text></g>
${box({ x: WIDE.vault, y: top, width: WIDE.box }, 'vault', name, id)}
${places.map((each, index) => {
  const y = index * ROW + ROW / 2;
  return html`<g class="${kindOf(each)}"><path d="M${from} ${middle}C${bend - 10} ${middle} ${from + 10} ${y} ${bend} ${y}H${x - 8}"/><path class="head" d="M${x - 8} ${y - 4}l7 4l-7 4z"/>
<text class="note start" x="${bend + 8}" y="${y - 7}">${fitted(usesOf(each, now), room, SMALL_WIDTH)}</text><text class="note start" x="${bend + 8}" y="${y + 17}">${fitted(each.by, room, SMALL_WIDTH)}</text></g>
${box({ x, y: y - BOX / 2, width: WIDE.box }, kindOf(each), each.name, noteOf(each))}`;
})}</svg>`;
};

/** One column, for a phone. */
const NARROW = { width: 256, indent: 28, gap: 34 } as const;

const narrow = ({ name, id, source, places, now }: Drawn): Html => {
  const { width, indent, gap } = NARROW;
  const vault = BOX + gap;
  const step = BOX + gap + 16;
  const first = vault + BOX + gap + 8;
  const height = places.length === 0 ? vault + BOX : first + (places.length - 1) * step + BOX;
  return html`<svg class="flow phone" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="been">
${box({ x: 0, y: 0, width }, 'source', source.name, source.note)}
<g class="stored"><path d="M${indent / 2} ${BOX}V${vault - 8}"/><path class="head" d="M${indent / 2 - 4} ${vault - 8}l4 7l4 -7z"/><text class="note start" x="${indent}" y="${BOX + 22}">${source.line}</text></g>
${box({ x: 0, y: vault, width }, 'vault', name, id)}
${places.map((each, index) => {
  const y = first + index * step;
  return html`<g class="${kindOf(each)}"><path d="M${indent / 2} ${vault + BOX}V${y + BOX / 2}H${indent - 8}"/><path class="head" d="M${indent - 8} ${y + BOX / 2 - 4}l7 4l-7 4z"/><text class="note start" x="${indent}" y="${y - 22}">${fitted(usesOf(each, now), width - indent, SMALL_WIDTH)}</text><text class="note start" x="${indent}" y="${y - 7}">${fitted(each.by, width - indent, SMALL_WIDTH)}</text></g>
${box({ x: indent, y, width: width - indent }, kindOf(each), each.name, noteOf(each))}`;
})}</svg>`;
};

/** @param name the masked value in a line. */
export const pictureCard = (
  { id, name, isCard, now }: { id: string; name: string; isCard: boolean; now: Date },
  timeline: Timeline,
): Html => {
  const all = placesOf(timeline);
  const places = all.slice(0, PLACES_MAX);
  const source = sourceOf(timeline);
  const drawn: Drawn = {
    name,
    id: shortId(id),
    places,
    now,
    source: source
      ? {
          name: source.name,
          note: `came in ${agoOf(source.counts.first_at, now)}`,
          line: `${source.counts.count.toLocaleString('en')} stored`,
        }
      : { name: 'Earlier', note: 'before these entries', line: 'stored' },
  };
  const summary =
    all.length === 0
      ? 'The value has not left the vault.'
      : `The value left for ${all.length === 1 ? 'one place' : `${all.length} places`}.`;
  return html`<section class="card"><div class="heading"><h2 id="been">Where has this ${isCard ? 'card' : 'value'} been?</h2>${
    timeline.first_at !== undefined &&
    html`<span class="quiet">since ${time(timeline.since ?? timeline.first_at)}</span>`
  }</div>
${wide(drawn)}
${narrow(drawn)}
<p class="quiet">${summary}${all.length > places.length && ` The picture has ${places.length} of them.`}</p>
${all.length > 0 && placesTable(all)}</section>`;
};
