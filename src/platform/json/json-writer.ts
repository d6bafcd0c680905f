// Writes JSON in slices, so that a large value does not block the event loop.
import type { Slices } from './json-parser.ts';

/** Characters of a slice: about a millisecond. A string is never split: a megabyte of it takes about two milliseconds. */
const SLICE_CHARACTERS = 65_536;
/** Values between two looks at the length. */
const SLICE_VALUES = 2000;

type Level = { values: unknown[]; names: string[] | undefined; at: number };

/** Writes as JSON.stringify does, for values that JSON.parse could have made; properties that are undefined are left out. */
export function* stringifyInSlices(root: unknown): Slices<string> {
  const levels: Level[] = [];
  const parts: string[] = [];
  let text = '';
  let values = 0;
  const begin = (value: unknown): void => {
    values += 1;
    if (typeof value !== 'object' || value === null) {
      text += JSON.stringify(value) ?? 'null';
      return;
    }
    const isList = Array.isArray(value);
    text += isList ? '[' : '{';
    const entries = isList ? [] : Object.entries(value).filter(([, each]) => each !== undefined);
    levels.push({
      values: isList ? (value as unknown[]) : entries.map(([, each]) => each),
      names: isList ? undefined : entries.map(([name]) => name),
      at: 0,
    });
  };
  begin(root);
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    if (level.at === level.values.length) {
      text += level.names ? '}' : ']';
      levels.pop();
    } else {
      if (level.at > 0) text += ',';
      if (level.names) text += `${JSON.stringify(level.names[level.at])}:`;
      level.at += 1;
      begin(level.values[level.at - 1]);
    }
    if (text.length < SLICE_CHARACTERS && values < SLICE_VALUES) continue;
    parts.push(text);
    text = '';
    values = 0;
    yield;
  }
  parts.push(text);
  return parts.join('');
}
