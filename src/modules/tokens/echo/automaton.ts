// Finds many byte patterns in a stream at once (Aho and Corasick, 1975). Transitions are in one hash table: a node takes some
// 30 bytes, where a row of 256 transitions would take a kilobyte.
import type { Slices } from '../../../platform/json/slices.ts';

/** Nodes that are made between two pauses. */
const SLICE_NODES = 8_192;

export const ROOT = 0;

export type Automaton = {
  /** The state after one more byte. */
  step(state: number, byte: number): number;
  /** Bytes of the longest pattern that a state has begun. */
  readonly depths: Int32Array;
  /** The longest pattern that ends in a state, by its index; -1 for none. */
  readonly ends: Int32Array;
  readonly depthMax: number;
};

/** Nodes from the root down: a counting sort, since one that compares is not linear. */
const orderByDepth = (depths: Int32Array, depthMax: number): Int32Array => {
  const next = new Int32Array(depthMax + 2);
  for (const depth of depths) next[depth + 1] = (next[depth + 1] as number) + 1;
  for (let depth = 1; depth <= depthMax; depth += 1)
    next[depth] = (next[depth] as number) + (next[depth - 1] as number);
  const order = new Int32Array(depths.length);
  for (const [node, depth] of depths.entries()) {
    const at = next[depth] as number;
    order[at] = node;
    next[depth] = at + 1;
  }
  return order;
};

/** Linear in the bytes of the patterns, of which none is empty. Of two equal patterns the first is found. */
export function* createAutomaton(patterns: readonly Uint8Array[]): Slices<Automaton> {
  const nodesMax = patterns.reduce((sum, { length }) => sum + length, 1);
  const slots = 2 ** Math.ceil(Math.log2(nodesMax * 2 + 1));
  const keys = new Int32Array(slots).fill(-1);
  const targets = new Int32Array(slots);
  const parents = new Int32Array(nodesMax);
  const bytes = new Uint8Array(nodesMax);
  const depths = new Int32Array(nodesMax);
  const ends = new Int32Array(nodesMax).fill(-1);
  const fails = new Int32Array(nodesMax);
  let nodes = 1;

  const slotOf = (state: number, byte: number): number => {
    const key = state * 256 + byte;
    let slot = (Math.imul(key, 0x9e3779b1) >>> 7) & (slots - 1);
    while (keys[slot] !== -1 && keys[slot] !== key) slot = (slot + 1) & (slots - 1);
    return slot;
  };
  const step = (from: number, byte: number): number => {
    for (let state = from; ; state = fails[state] as number) {
      const slot = slotOf(state, byte);
      if (keys[slot] !== -1) return targets[slot] as number;
      if (state === ROOT) return ROOT;
    }
  };

  for (const [index, pattern] of patterns.entries()) {
    let state = ROOT;
    for (const [at, byte] of pattern.entries()) {
      const slot = slotOf(state, byte);
      if (keys[slot] === -1) {
        keys[slot] = state * 256 + byte;
        targets[slot] = nodes;
        parents[nodes] = state;
        bytes[nodes] = byte;
        depths[nodes] = at + 1;
        nodes += 1;
        if (nodes % SLICE_NODES === 0) yield;
      }
      state = targets[slot] as number;
    }
    if (ends[state] === -1) ends[state] = index;
  }
  const depthMax = patterns.reduce((most, { length }) => Math.max(most, length), 0);
  const order = orderByDepth(depths.subarray(0, nodes), depthMax);
  yield;
  for (const [at, node] of order.entries()) {
    if (node === ROOT) continue;
    const parent = parents[node] as number;
    fails[node] = parent === ROOT ? ROOT : step(fails[parent] as number, bytes[node] as number);
    if (ends[node] === -1) ends[node] = ends[fails[node] as number] as number;
    if (at % SLICE_NODES === 0) yield;
  }
  return { step, depths, ends, depthMax };
}
