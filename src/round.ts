// A round of the event loop: what became possible while sockets were read goes out at its end, one write behind the other.
// A write to somebody asleep costs several times what it costs once they are awake, and they stay awake for what follows
// at once: a quarter of what the proxy does a second (bench/README.md).

let round: Promise<void> | undefined;

/** @returns what resolves when all has been read that can be read now; at once where nothing is left. One for all of a round. */
export const endOfRound = (): Promise<void> =>
  (round ??= new Promise((resolve) => {
    setImmediate(() => {
      round = undefined;
      resolve();
    });
  }));
