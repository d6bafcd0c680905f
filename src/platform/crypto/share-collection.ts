// Collects the shares of one or several root keys until enough are there, and drops them.
import { combineShares, type KeyShare, parseShare, ShareFault } from './key-shares.ts';
import type { WantedSet } from './share-sets.ts';

export type SharesGiven = { set: string | undefined; given: number; needed: number };

export type ShareCollection = {
  /** @param text overwritten. @returns the share that was added. @throws ShareFault; the collection stays as it is. */
  add(text: Uint8Array): Pick<KeyShare, 'set' | 'index'>;
  given(): SharesGiven[];
  isComplete(): boolean;
  /** Makes the keys, in the order of the configuration, and drops the shares. @throws ShareFault. */
  combine(): Promise<Buffer[]>;
  drop(): void;
};

const describe = ({ threshold, shares, set }: WantedSet): string =>
  `${threshold} of ${shares}${set === undefined ? '' : ` of set ${set}`}`;

export const collectShares = (wanted: readonly WantedSet[]): ShareCollection => {
  const slots = wanted.map((each) => ({ wanted: each, shares: [] as KeyShare[] }));
  type Slot = (typeof slots)[number];
  const setOf = ({ wanted: { set }, shares }: Slot): string | undefined => set ?? shares[0]?.set;

  /** @throws ShareFault for a share that the configuration does not ask for. */
  const findSlot = (share: KeyShare): Slot => {
    const alike = slots.filter(
      ({ wanted: { threshold, shares } }) => threshold === share.threshold && shares === share.shares,
    );
    if (alike.length === 0)
      throw new ShareFault(
        `Share ${share.index} of set ${share.set} is one of ${share.shares}, of which ${share.threshold} are needed. MASTER_KEY_SHARES asks for ${wanted.map(describe).join(' and ')}.`,
      );
    const found = alike.find((slot) => (setOf(slot) ?? share.set) === share.set);
    if (found) return found;
    throw new ShareFault(
      `Share ${share.index} is of set ${share.set}, and set ${alike.map(setOf).join(' or ')} is collected. If that one is wrong, drop it: strongroom unseal --drop`,
    );
  };

  const drop = (): void => {
    for (const slot of slots) for (const { point } of slot.shares.splice(0)) point.fill(0);
  };

  return {
    add(text) {
      try {
        const share = parseShare(text);
        const { shares } = findSlot(share);
        const { index, set } = share;
        if (shares.some((other) => other.index === index))
          throw new ShareFault(`Share ${index} of set ${set} was given already. Another one is needed.`);
        shares.push(share);
        return { set, index };
      } finally {
        text.fill(0);
      }
    },
    given: () => slots.map((slot) => ({ set: setOf(slot), given: slot.shares.length, needed: slot.wanted.threshold })),
    isComplete: () => slots.every(({ wanted: { threshold }, shares }) => shares.length >= threshold),
    async combine() {
      const keys: Buffer[] = [];
      try {
        for (const { shares } of slots) keys.push(await combineShares(shares));
        return keys;
      } catch (error) {
        for (const key of keys) key.fill(0);
        throw error;
      } finally {
        drop();
      }
    },
    drop,
  };
};
