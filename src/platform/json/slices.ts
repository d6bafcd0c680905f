// Slices: work that must not hold the event loop (accounts.ts runs it in turns). Maps lists and writes JSON in slices.

/** Work in slices, with pauses between them for other work. */
export type Slices<T> = Generator<undefined, T, undefined>;

/** Without pauses, for small texts. */
export const runAtOnce = <T>(slices: Slices<T>): T => {
  for (;;) {
    const step = slices.next();
    if (step.done) return step.value;
  }
};

/** Maps a list, with a pause after each item. */
export function* mapInSlices<T, R>(items: readonly T[], map: (item: T, index: number) => R): Slices<R[]> {
  const mapped: R[] = [];
  for (const [index, item] of items.entries()) {
    mapped.push(map(item, index));
    yield;
  }
  return mapped;
}

/** Characters of a slice, also of one long string: about half a millisecond. */
const SLICE_CHARACTERS = 65_536;
/** Values between two looks at the length. */
const SLICE_VALUES = 2000;

/** A list, the values of an object with their names, or a string of more than one slice. */
type Level =
  | { values: unknown[]; names: string[] | undefined; at: number; long?: undefined }
  | { long: string; at: number; values?: undefined };

/** A piece of a string without its quotation marks. JSON.stringify would write half of a surrogate pair as an escape. */
const pieceOf = (level: { long: string; at: number }): string => {
  const { long, at } = level;
  const end = at + SLICE_CHARACTERS;
  const isHalf = end < long.length && (long.charCodeAt(end - 1) & 0xfc00) === 0xd800;
  level.at = isHalf ? end - 1 : end;
  return JSON.stringify(long.slice(at, level.at)).slice(1, -1);
};

type WriteOptions = {
  /** Writes the properties of each object in the order of their names, by UTF-16 code units. */
  isSorted?: boolean;
  /** Gets the number of characters so far, after each slice. What it throws ends the work. */
  onCharacters?: (characters: number) => void;
};

const namesOf = (value: object, isSorted: boolean): string[] => {
  const names = Object.keys(value).filter((name) => (value as Record<string, unknown>)[name] !== undefined);
  return isSorted ? names.toSorted((a, b) => (a < b ? -1 : 1)) : names;
};

/** Writes as JSON.stringify does, for values of JSON, dates, and properties that are undefined, which it leaves out. */
export function* stringifyInSlices(
  root: unknown,
  { isSorted = false, onCharacters }: WriteOptions = {},
): Slices<string> {
  const levels: Level[] = [];
  const parts: string[] = [];
  let text = '';
  let characters = 0;
  let values = 0;
  const begin = (value: unknown): void => {
    values += 1;
    if (typeof value === 'string' && value.length > SLICE_CHARACTERS) {
      text += '"';
      levels.push({ long: value, at: 0 });
      return;
    }
    if (typeof value !== 'object' || value === null || value instanceof Date) {
      text += JSON.stringify(value) ?? 'null';
      return;
    }
    const names = Array.isArray(value) ? undefined : namesOf(value, isSorted);
    text += names ? '{' : '[';
    const inOrder = names?.map((name) => (value as Record<string, unknown>)[name]) ?? (value as unknown[]);
    levels.push({ values: inOrder, names, at: 0 });
  };
  const endSlice = (): void => {
    parts.push(text);
    characters += text.length;
    text = '';
    values = 0;
    onCharacters?.(characters);
  };
  begin(root);
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    if (level.long !== undefined) {
      text += pieceOf(level);
      if (level.at >= level.long.length) {
        text += '"';
        levels.pop();
      }
    } else if (level.at === level.values.length) {
      text += level.names ? '}' : ']';
      levels.pop();
    } else {
      if (level.at > 0) text += ',';
      if (level.names) text += `${JSON.stringify(level.names[level.at])}:`;
      level.at += 1;
      begin(level.values[level.at - 1]);
    }
    if (text.length < SLICE_CHARACTERS && values < SLICE_VALUES) continue;
    endSlice();
    yield;
  }
  endSlice();
  return parts.join('');
}
