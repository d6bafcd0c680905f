// What is under way, in no order, for what comes and goes thousands of times a second. A Set would do, or a Map, but for what
// they leave behind: each time a table fills up with what was deleted they make another, and the old one points to the new.
// Once one has grown old with V8's garbage collector, all that follow are kept alive by their dead forerunners until the next
// full collection, with all that was in them. A proxied request cost half as much again that way (bench/README.md).

export type Bag<T> = Iterable<T> & {
  /** @returns what takes it out again; the second time it does nothing. */
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
        // The last one takes its place.
        const last = places.pop() as Place;
        if (last === place) return;
        last.at = place.at;
        places[last.at] = last;
      };
    },
    [Symbol.iterator]: () => places.map(({ item }) => item).values(),
  };
};
