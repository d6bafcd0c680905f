// The context of the access module: the platform, the finder of callers and the log of refusals.
import type { BoundTargets, StoredBound } from './bounds.ts';
import { type CallerFinder } from './caller-finder.ts';
import type { KeyUses } from './key-uses.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { RequestRates } from './request-rates.ts';
import type { RefusalLog } from './refusals.ts';
import type { UsageCounts } from './usage.ts';

/** What a decision of the access rules needs of a stored token. */
export type TokenPlace = { id: string; container: string; masked: boolean; bound_to: StoredBound | null };

/** Look-ups of stored tokens before a kept answer is replayed. */
export type ReplayChecks = {
  /** The containers of those tokens that exist now. */
  findPlaces(tenant_id: string, ids: string[]): Promise<TokenPlace[]>;
  /** Digests of the current masks of tokens. A token that is too large to be opened beside the others has none. */
  digestMasks(tenant_id: string, ids: string[]): Promise<Map<string, string>>;
};

export type AccessContext = Platform & {
  readonly callers: CallerFinder;
  readonly keyUses: KeyUses;
  readonly usage: UsageCounts;
  readonly refusals: RefusalLog;
  readonly requestRates: RequestRates;
  /** The tokens module sets it. */
  replayChecks: ReplayChecks | undefined;
  readonly boundTargets: BoundTargets;
  /** Finds the stored proxy of a key that has not ended. The proxy module sets it. */
  readonly proxyKeys: { find?(key: string): Promise<{ application_id: string | undefined } | undefined> };
};
