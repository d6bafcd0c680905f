// Walks JSON values with a stack of its own: depth does not overflow the call stack, and no path is built for each value.
import type { Json } from './json.ts';

/** Values between two pauses. */
const PAUSE_VALUES = 1000;

/** A container whose children are being visited. `names`: undefined for an array. */
type Level = { holder: Json[] | { [key: string]: Json }; names: string[] | undefined; length: number; at: number };

export type JsonWalk = {
  /** Moves to the next value: containers before their children, in the order of the text. @returns false at the end. */
  next(): boolean;
  /** The current value. */
  readonly value: Json;
  /** Its property name; undefined for the root and for items of arrays. */
  readonly name: string | undefined;
  /** How many containers are around the current value. */
  readonly depth: number;
  /** The way to the current value, built for this call. */
  path(): (string | number)[];
  /** Whether so many values were visited that the event loop must get a pause. */
  isPauseDue(): boolean;
};

export const walkJson = (root: Json): JsonWalk => {
  const levels: Level[] = [];
  let visited = 0;
  const enter = (holder: Level['holder']): void => {
    const names = Array.isArray(holder) ? undefined : Object.keys(holder);
    const length = names?.length ?? (holder as Json[]).length;
    if (length > 0) levels.push({ holder, names, length, at: -1 });
  };
  const walk = {
    value: root,
    name: undefined as string | undefined,
    depth: 0,
    next: () => {
      visited += 1;
      if (visited === 1) return true;
      if (typeof walk.value === 'object' && walk.value !== null) enter(walk.value);
      for (let level = levels.at(-1); level; level = levels.at(-1)) {
        level.at += 1;
        if (level.at < level.length) {
          walk.name = level.names?.[level.at];
          walk.value = (level.holder as Record<string | number, Json>)[walk.name ?? level.at] as Json;
          walk.depth = levels.length;
          return true;
        }
        levels.pop();
      }
      return false;
    },
    path: () => levels.map(({ names, at }) => names?.[at] ?? at),
    isPauseDue: () => visited % PAUSE_VALUES === 0,
  };
  return walk;
};
