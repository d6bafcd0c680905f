// The lines in which two texts differ, with a few lines around each.
type DiffLine = { kind: 'same' | 'added' | 'removed' | 'skipped'; text: string };

/** Around each change. */
const CONTEXT_LINES = 3;
/** Pairs of lines that are compared: 10 ms. A larger middle is shown as removed and added. */
const PAIRS_MAX = 250_000;

const removedThenAdded = (before: readonly string[], after: readonly string[]): DiffLine[] => [
  ...before.map((text) => ({ kind: 'removed' as const, text })),
  ...after.map((text) => ({ kind: 'added' as const, text })),
];

/** Compares by the longest common subsequence of lines: `lengths[i][j]` is its length from line i and line j on. */
const compareMiddles = (before: readonly string[], after: readonly string[]): DiffLine[] => {
  if (before.length * after.length > PAIRS_MAX) return removedThenAdded(before, after);
  const width = after.length + 1;
  const lengths = new Uint32Array((before.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = before.length - 1; row >= 0; row -= 1)
    for (let column = after.length - 1; column >= 0; column -= 1)
      lengths[row * width + column] =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
  const lines: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < before.length && column < after.length) {
    const [old, now] = [before[row] as string, after[column] as string];
    if (old === now) {
      lines.push({ kind: 'same', text: old });
      row += 1;
      column += 1;
    } else if (at(row + 1, column) >= at(row, column + 1)) {
      lines.push({ kind: 'removed', text: old });
      row += 1;
    } else {
      lines.push({ kind: 'added', text: now });
      column += 1;
    }
  }
  return [...lines, ...removedThenAdded(before.slice(row), after.slice(column))];
};

const commonLines = (before: readonly string[], after: readonly string[]): number => {
  let count = 0;
  while (count < before.length && count < after.length && before[count] === after[count]) count += 1;
  return count;
};

/** Leaves out lines that are far from each change: one `skipped` stands for each gap. */
const nearChanges = (lines: readonly DiffLine[]): DiffLine[] => {
  const isNear = new Set<number>();
  for (const [at, { kind }] of lines.entries())
    if (kind !== 'same') for (let by = -CONTEXT_LINES; by <= CONTEXT_LINES; by += 1) isNear.add(at + by);
  return lines.flatMap((line, at) => {
    if (isNear.has(at)) return [line];
    return at === 0 || isNear.has(at - 1) ? [{ kind: 'skipped' as const, text: '' }] : [];
  });
};

/** What changes a text into another; empty where they are the same. */
export const diffLines = (before: string, after: string): DiffLine[] => {
  const [old, now] = [before.split('\n'), after.split('\n')];
  const head = commonLines(old, now);
  const [oldRest, nowRest] = [old.slice(head), now.slice(head)];
  const tail = commonLines(oldRest.toReversed(), nowRest.toReversed());
  const same = (texts: readonly string[]): DiffLine[] => texts.map((text) => ({ kind: 'same', text }));
  return nearChanges([
    ...same(old.slice(0, head)),
    ...compareMiddles(oldRest.slice(0, oldRest.length - tail), nowRest.slice(0, nowRest.length - tail)),
    ...same(oldRest.slice(oldRest.length - tail)),
  ]).filter(({ kind }, _, lines) => kind !== 'skipped' || lines.length > 1);
};
