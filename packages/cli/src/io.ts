// What a command reads and writes in place of the process, and how it prints records: as text for people, or as JSON.
import type { Writable } from 'node:stream';

export type Stdin = NodeJS.ReadableStream & { isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };

/** What the process of a command, or a test, gives it. */
export type Surroundings = {
  readonly stdin: Stdin;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths of files begin here. */
  readonly directory: string;
  /** Waits between two looks at the log. Ends the following where it is rejected. */
  readonly sleep?: (ms: number) => Promise<void>;
};

/**
 * Each control or bidirectional character as an escape. Names and messages come from people and from code: a terminal must not
 * obey them.
 */
export const cleanText = (text: string, kept = ''): string =>
  // oxlint-disable-next-line no-control-regex
  text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (character) =>
    kept.includes(character) ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** The columns of a table, from records. */
export type Columns<Item> = readonly (readonly [heading: string, cell: (item: Item) => unknown])[];

const cellText = (value: unknown): string => {
  if (value === undefined || value === null) return '';
  return cleanText(typeof value === 'object' ? JSON.stringify(value) : String(value));
};

const CELL_LENGTH_MAX = 60;

const clip = (text: string): string =>
  text.length > CELL_LENGTH_MAX ? `${text.slice(0, CELL_LENGTH_MAX - 3)}...` : text;

export type Io = Surroundings & {
  readonly json: boolean;
  /** Writes a line of the result. The text is written as it is. */
  print(line: string): void;
  /** Writes a line about what happens, or a warning, on stderr. */
  say(line: string): void;
  /** One record: lines of names and values, or one line of JSON. */
  show(record: object): void;
  /** Records as a table, or as lines of JSON. */
  list<Item extends object>(items: readonly Item[], columns: Columns<Item>): void;
};

const tableOf = <Item>(items: readonly Item[], columns: Columns<Item>): string[] => {
  const rows = [
    columns.map(([heading]) => heading.toUpperCase()),
    ...items.map((item) => columns.map(([, cell]) => clip(cellText(cell(item))))),
  ];
  const widths = columns.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
};

const linesOf = (record: object, indent = ''): string[] => {
  const entries = Object.entries(record).filter(([, value]) => value !== undefined);
  const width = Math.max(0, ...entries.map(([name]) => name.length));
  return entries.map(([name, value]) => `${indent}${cleanText(name).padEnd(width)}  ${cellText(value)}`);
};

export const createIo = (surroundings: Surroundings, json: boolean): Io => {
  const { stdout, stderr } = surroundings;
  const print = (line: string): void => void stdout.write(`${line}\n`);
  return {
    ...surroundings,
    json,
    print,
    say: (line) => void stderr.write(`${line}\n`),
    show: (record) => (json ? print(JSON.stringify(record)) : linesOf(record).forEach(print)),
    list: (items, columns) => {
      if (json) items.forEach((item) => print(JSON.stringify(item)));
      else if (items.length === 0) surroundings.stderr.write('Nothing was found.\n');
      else tableOf(items, columns).forEach(print);
    },
  };
};
