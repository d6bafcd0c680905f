// An unordered collection for items that come and go thousands of times a second, such as the requests under way.
// V8 replaces the table of a Set when it fills up with deleted entries, and the old table points to the new one. Once one of
// them is old, each later table, with the items in it, lives until the next full collection: with a Set a proxied request
// takes 25 % more CPU time (docs/decisions/0045-tricks-removed.md).

export type Bag<T> = Iterable<T> & {
  /** @returns a function that removes the item; the second call does nothing. */
  add(item: T): () => void;
};

export const createBag = <T>(): Bag<T> => {
  type Place = { item: T; at: number };
  const places: Place[] = [];
  return {
    add: (item) => {
      const place: Place = { item, at: places.length };
      places.push(place);
      return () => {
        if (places[place.at] !== place) return;
        // The last item moves to its place.
        const last = places.pop() as Place;
        if (last === place) return;
        last.at = place.at;
        places[last.at] = last;
      };
    },
    [Symbol.iterator]: () => places.map(({ item }) => item).values(),
  };
};
