// A set of texts that finds in a few comparisons whether one of them is the beginning of another text.

export type PrefixSet = {
  /** Different texts that were added. */
  readonly size: number;
  add(text: string): void;
  /** Whether the text begins with one of the set. */
  hasPrefixOf(text: string): boolean;
  /** Whether a text of the set begins with the text, but for those that are longer than another of the set. */
  hasBeginningIn(text: string): boolean;
};

export const createPrefixSet = (): PrefixSet => {
  const texts = new Set<string>();
  /** Those of which no other is a prefix, sorted: only the last one that is not greater than a text can be its prefix. */
  const sorted: string[] = [];

  /** The index of the first one that is greater than the text. */
  const indexAfter = (text: string): number => {
    let from = 0;
    let to = sorted.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((sorted[middle] as string) <= text) from = middle + 1;
      else to = middle;
    }
    return from;
  };
  const hasPrefixOf = (text: string): boolean => {
    const before = sorted[indexAfter(text) - 1];
    return before !== undefined && text.startsWith(before);
  };

  return {
    get size() {
      return texts.size;
    },
    add: (text) => {
      if (texts.has(text)) return;
      texts.add(text);
      if (hasPrefixOf(text)) return;
      const at = indexAfter(text);
      let longer = at;
      while (sorted[longer]?.startsWith(text)) longer += 1;
      sorted.splice(at, longer - at, text);
    },
    hasPrefixOf,
    hasBeginningIn: (text) => sorted[indexAfter(text)]?.startsWith(text) === true,
  };
};
