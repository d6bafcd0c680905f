// Error messages for unknown names in a request, with the nearest known name, and for unsupported ones.

/** Unknown names that one response lists. */
export const UNKNOWN_NAMES_MAX = 100;

/** Longer names are not compared: they are no typing errors, and their distance costs time. */
const COMPARED_LENGTH_MAX = 60;
/** Differences between a typing error and the name that was meant. More would suggest unrelated names. */
const DIFFERENCES_MAX = 3;

/** `expiresAt`, `Expires-At` and `expires_at` are one name in three spellings. */
const plainOf = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '');

/** Characters added, left out, replaced, or swapped with their neighbour (optimal string alignment). */
export const editDistance = (one: string, other: string): number => {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row += 1) {
    const next = [row];
    for (let at = 1; at <= other.length; at += 1) {
      const isSame = one[row - 1] === other[at - 1];
      const least = [(last[at] ?? 0) + 1, (next[at - 1] ?? 0) + 1, (last[at - 1] ?? 0) + (isSame ? 0 : 1)];
      const isSwapped = row > 1 && at > 1 && one[row - 1] === other[at - 2] && one[row - 2] === other[at - 1];
      if (isSwapped) least.push((before[at - 2] ?? 0) + 1);
      next.push(Math.min(...least));
    }
    before = last;
    last = next;
  }
  return last[other.length] ?? 0;
};

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');

/** Words that begin with the same four letters are taken for one: `expiry` and `expiration`. */
const ALIKE_LETTERS = 4;

/** Whether each word of a name begins as the same word of the other: `exp_month` is meant as `expiration_month`. */
const isShortFor = (words: readonly string[], known: readonly string[]): boolean =>
  words.length > 1 &&
  words.length === known.length &&
  words.every((word, at) => known[at]?.startsWith(word.slice(0, ALIKE_LETTERS)));

/** Whether one name is the end of the other in whole words: `card_number` and `number`. */
const endsAlike = (words: readonly string[], known: readonly string[]): boolean => {
  const [short, long] = words.length < known.length ? [words, known] : [known, words];
  return short.length > 0 && short.every((word, at) => word === long[long.length - short.length + at]);
};

/**
 * The known name that was most likely meant: one that differs in a third of its characters at most, or else one that the name
 * is short for, or that ends in the same words.
 */
export const nearestName = (name: string, known: Iterable<string>): string | undefined => {
  if (name.length > COMPARED_LENGTH_MAX) return undefined;
  const plain = plainOf(name);
  let nearest: string | undefined;
  let least = Math.min(DIFFERENCES_MAX, Math.max(1, Math.floor(plain.length / 3))) + 1;
  for (const candidate of known) {
    const distance = editDistance(plain, plainOf(candidate));
    if (distance < least) [nearest, least] = [candidate, distance];
  }
  if (nearest !== undefined) return nearest;
  const words = wordsOf(name);
  const candidates = [...known];
  return (
    candidates.find((candidate) => isShortFor(words, wordsOf(candidate))) ??
    candidates.find((candidate) => endsAlike(words, wordsOf(candidate)))
  );
};

/** An error lists the known names where there are fewer. */
const LISTED_NAMES_MAX = 9;

/** The known names as the end of an error, where they are few. */
export const knownNames = (known: Iterable<string>, listedMax = LISTED_NAMES_MAX): string => {
  const names = [...known];
  if (names.length === 0 || names.length > listedMax) return '';
  const listed = names.map((name) => `\`${name}\``);
  return names.length === 1 ? `; known is ${listed[0]}` : `; known are ${listed.join(', ')}`;
};

/** The error for an unknown name. For `page_size` the last word, `size`, is the nearest name. */
export const unknownName = (name: string, known: Iterable<string>, listedMax = LISTED_NAMES_MAX): string => {
  const names = [...known];
  const nearest = nearestName(name, names) ?? names.find((each) => each === name.split('_').at(-1));
  return `is not known here${nearest === undefined ? knownNames(names, listedMax) : `; did you mean \`${nearest}\`?`}`;
};

/** The error for an attribute or parameter of the earlier API that Strongroom does not have. */
export const NOT_SUPPORTED = 'is not supported: leave it out';
