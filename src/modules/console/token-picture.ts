// "Where has this card been?" as inline SVG: its source, the vault, and each place to which the value went.
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../platform/base/times.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { clipped } from './list-parts.ts';
import { type Place, placesOf, placesTable, sourceOf, type Timeline } from './token-timeline.ts';
import { time } from './shell.ts';

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
