// Records the access decisions, granted rights and log rows behind a kept answer, so that a replay can check them again.
import { type AccessRule, type Visibility } from './access-rule.ts';
import type { LogRow } from '../../platform/db/audit-record.ts';
import { memoryDigest } from '../../platform/crypto/digest.ts';
import type { ApplicationLimits, DailyLimit } from '../../platform/base/application-limits.ts';
import type { Permission } from './permissions.ts';

/** Decisions that are kept with an answer. Code may read thousands of tokens: an answer with more decisions is not replayed. */
const DECISIONS_MAX = 5_000;

/** Entities in the log rows that are kept with an answer: twice as many as one request creates. Likewise. */
const LOGGED_IDS_MAX = 20_000;

/** A check of a permission. Without a container: whether it is held at all. */
export type Decision = {
  /** The caller, or the application on whose behalf code asked. */
  actor_id: string;
  permission: Permission;
  id?: string | undefined;
  container?: string | undefined;
  /** How much of the token's value the answer may have. Undefined without a container. */
  shown?: Visibility;
  /** The token is stored: a replay looks up its container, and whether it has a mask. */
  isStored?: boolean;
  /** Whether a token that the request creates has a mask. */
  hasMask?: boolean;
  /** Digest of the own mask of a stored token that is shown masked, or of having none. */
  mask?: string;
};

/** @param kept as it is stored with the token. */
export const digestOfMask = ({ mask }: { mask?: unknown }): string => memoryDigest(JSON.stringify({ mask }));

const ranks: Record<Visibility, number> = { nothing: 0, masked: 1, value: 2 };

export const showsLess = (one: Visibility, other: Visibility): boolean => ranks[one] < ranks[other];

/** Rights that the answer passes on, such as those of an API key in it. */
export type HandedOn = {
  permissions: Permission[];
  rules: readonly AccessRule[];
  allowed_hosts?: readonly string[] | undefined;
  limits?: ApplicationLimits | undefined;
  /** Id of an application that was there before. */
  application_id?: string | undefined;
};

/** Tokens that the request counted for a daily limit of an application. */
export type CountedTokens = { actor_id: string; limit: DailyLimit; ids: string[] };

/** A log row without actor and time, which are those of the replay. */
export type LoggedOperation = Pick<
  LogRow,
  | 'operation'
  | 'entity_type'
  | 'entity_ids'
  | 'message'
  | 'disclosure'
  | 'destination_host'
  | 'is_list'
  | 'reactor_id'
  | 'proxy_id'
  | 'code_application_id'
>;

export type AnswerBasis = {
  decisions: Decision[];
  handedOn: HandedOn[];
  logged: LoggedOperation[];
  counted: CountedTokens[];
  /** When something that the answer may hold is destroyed, in ms since 1970. */
  readable_until?: number | undefined;
  /** Keys of stored proxies in the answer. */
  proxy_keys?: string[];
  /** There are more decisions or rows than are kept. */
  isTooLarge: boolean;
};

export type AnswerRecord = {
  readonly basis: AnswerBasis;
  /** Records a decision. If the same is made twice, the one that shows more counts. */
  decided(decision: Decision): void;
  handedOn(rights: HandedOn): void;
  /** Bounded with the log rows, which have the same ids. */
  counted(tokens: CountedTokens): void;
  /** Records a row that is written. @returns the recorded part of it. */
  logged(row: LoggedOperation): LoggedOperation;
  /** Removes recorded rows that were rolled back. */
  notLogged(rows: ReadonlySet<LoggedOperation>): void;
  /** The answer has the key of a stored proxy: it is replayed only while the key lives. */
  showsProxyKey(key: string): void;
  /** The answer may hold something that is destroyed at a time: from then on it is not replayed. */
  readableUntil(at: Date): void;
};

export const createAnswerRecord = (): AnswerRecord => {
  const counted: CountedTokens[] = [];
  const basis: AnswerBasis = { decisions: [], handedOn: [], logged: [], counted, isTooLarge: false };
  const known = new Map<string, Decision>();
  let ids = 0;
  return {
    basis,
    decided: (decision) => {
      const { shown, mask, ...of } = decision;
      const name = JSON.stringify(of);
      const before = known.get(name);
      if (before) {
        // If the request changed the mask, the last one counts.
        if (mask !== undefined) before.mask = mask;
        if (shown && before.shown && showsLess(before.shown, shown)) before.shown = shown;
        return;
      }
      if (known.size >= DECISIONS_MAX) return void (basis.isTooLarge = true);
      known.set(name, decision);
      basis.decisions.push(decision);
    },
    handedOn: (rights) => void basis.handedOn.push({ ...rights, permissions: [...rights.permissions] }),
    counted: (tokens) => {
      if (!basis.isTooLarge) counted.push(tokens);
    },
    logged: (row) => {
      const { operation, entity_type, entity_ids, message, disclosure } = row;
      const { destination_host, is_list, reactor_id, proxy_id, code_application_id } = row;
      const what = { operation, entity_type, entity_ids, message, disclosure };
      const noted: LoggedOperation = { ...what, destination_host, is_list, reactor_id, proxy_id, code_application_id };
      if (ids + entity_ids.length > LOGGED_IDS_MAX) {
        basis.isTooLarge = true;
        return noted;
      }
      ids += entity_ids.length;
      basis.logged.push(noted);
      return noted;
    },
    notLogged: (rows) => {
      basis.logged = basis.logged.filter((row) => !rows.has(row));
      ids = basis.logged.reduce((sum, { entity_ids }) => sum + entity_ids.length, 0);
    },
    showsProxyKey: (key) => void (basis.proxy_keys = [...(basis.proxy_keys ?? []), key]),
    readableUntil: (at) => {
      basis.readable_until = Math.min(basis.readable_until ?? Infinity, at.getTime());
    },
  };
};

/** The basis of an answer as if another caller had made the request: what its caller was allowed is asked of that one. */
export const basisFor = (basis: AnswerBasis, { of, reader }: { of: string; reader: string }): AnswerBasis => {
  const handOver = <T extends { actor_id: string }>(each: T): T =>
    each.actor_id === of ? { ...each, actor_id: reader } : each;
  return { ...basis, decisions: basis.decisions.map(handOver), counted: basis.counted.map(handOver) };
};
