// Pieces of answers as services write them, by kind, each with the escapes that its kind has.
const PIECE_BYTES = 65_536;

/** Numbers that are the same in each run. */
const randomsFrom = (start: number) => {
  let seed = start;
  return (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
    return Math.floor((seed / 0x80000000) * below);
  };
};

const words =
  'the of payment refused card holder customer said "no" and we\'re sorry order total München <b>bold</b> & more path C:\\temp 100% a/b'.split(
    ' ',
  );

const repeat = (record: (random: (below: number) => number) => string, between: string): Buffer => {
  const random = randomsFrom(7);
  const records: string[] = [];
  for (let bytes = 0; bytes < PIECE_BYTES; bytes += (records.at(-1) as string).length) records.push(record(random));
  return Buffer.from(records.join(between) + between);
};

type Random = (below: number) => number;

const sentence = (random: Random): string =>
  Array.from({ length: 12 }, () => words[random(words.length)] as string).join(' ');

const inMarkup = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;');

const charge = (random: Random) => ({
  id: `ch_${random(1e9).toString(36)}`,
  amount: random(1e6),
  created: 1_700_000_000 + random(1e8),
  currency: 'eur',
  description: sentence(random),
  metadata: { order: String(random(1e9)), note: JSON.stringify({ said: sentence(random) }) },
});

/** With its type; about 64 KB. */
export const kinds: Record<string, { type: string; piece: Buffer }> = {
  text: { type: 'text/plain', piece: repeat((random) => `${random(1e9)} ${sentence(random)}`, '\n') },
  json: { type: 'application/json', piece: repeat((random) => JSON.stringify(charge(random)), ',\n') },
  html: {
    type: 'text/html',
    piece: repeat(
      (random) =>
        `<tr class="row"><td>${random(1e9)}</td><td><a href="/c?id=${random(1e6)}&amp;x=1">${inMarkup(sentence(random))}</a></td></tr>`,
      '\n',
    ),
  },
  form: {
    type: 'application/x-www-form-urlencoded',
    piece: repeat(
      (random) => new URLSearchParams({ id: String(random(1e9)), 'card[note]': sentence(random) }).toString(),
      '&',
    ),
  },
};
