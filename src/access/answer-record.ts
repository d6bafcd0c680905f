// What an answer rests on: the decisions over tokens, the rights that were handed on, and the rows of the log. A kept answer is
// given again only where all of it would be decided so today. Knows no database.
import type { LogRow } from '../audit/record.ts';
import { memoryDigest } from '../crypto/digest.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';
import type { AccessRule, Visibility } from './rules.ts';

/** Decisions that an answer is kept with. Code may read thousands of tokens: what rests on more is not given again. */
const DECISIONS_MAX = 5_000;

/** Entities in the rows that an answer is kept with: twice as many as one request makes. Likewise. */
const LOGGED_IDS_MAX = 20_000;

/** A permission that was looked at. Without a container: whether it is held at all. */
export type Decision = {
  /** The caller, or the application on whose behalf code asked. */
  actor_id: string;
  permission: Permission;
  id?: string | undefined;
  container?: string | undefined;
  /** How much of the token's value the answer may have. Undefined with the container. */
  shown?: Visibility;
  /** The token was there before: what counts is where it is, and whether it has a mask, when the answer is given again. */
  isStored?: boolean;
  /** Of a token that the request makes. */
  hasMask?: boolean;
  /** Of a stored token that is shown masked: a digest of the mask of its own, or of having none. */
  mask?: string;
};

/** @param kept as it is stored with the token. */
export const digestOfMask = ({ mask }: { mask?: unknown }): string => memoryDigest(JSON.stringify({ mask }));

const ranks: Record<Visibility, number> = { nothing: 0, masked: 1, value: 2 };

export const showsLess = (one: Visibility, other: Visibility): boolean => ranks[one] < ranks[other];

/** Rights that were handed on with the answer, such as those of an API key in it. */
export type HandedOn = {
  permissions: Permission[];
  rules: readonly AccessRule[];
  allowed_hosts?: readonly string[] | undefined;
};

/** A row of the log without the actor and the time: each replay has its own. */
export type LoggedDeed = Pick<
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
>;

export type AnswerBasis = {
  decisions: Decision[];
  handedOn: HandedOn[];
  logged: LoggedDeed[];
  /** The answer may hold something that ceases to exist then, in ms since 1970. */
  readable_until?: number | undefined;
  /** There were more decisions or rows than are kept. */
  isTooLarge: boolean;
};

/** Notes what the answer of a request rests on. */
export type AnswerRecord = {
  readonly basis: AnswerBasis;
  /** Notes a decision. Of the same decision twice, what shows more counts. */
  decided(decision: Decision): void;
  handedOn(rights: HandedOn): void;
  /** Notes a row that is written. @returns what is noted of it. */
  logged(row: LoggedDeed): LoggedDeed;
  /** Takes rows away that were not written in the end. */
  notLogged(rows: ReadonlySet<LoggedDeed>): void;
  /** The answer may hold what ceases to exist at a time: it is not given again from then on. */
  readableUntil(at: Date): void;
};

export const createAnswerRecord = (): AnswerRecord => {
  const basis: AnswerBasis = { decisions: [], handedOn: [], logged: [], isTooLarge: false };
  const known = new Map<string, Decision>();
  let ids = 0;
  return {
    basis,
    decided: (decision) => {
      const { shown, mask, ...of } = decision;
      const name = JSON.stringify(of);
      const before = known.get(name);
      if (before) {
        // What the request itself changed counts as it left it.
        if (mask !== undefined) before.mask = mask;
        if (shown && before.shown && showsLess(before.shown, shown)) before.shown = shown;
        return;
      }
      if (known.size >= DECISIONS_MAX) return void (basis.isTooLarge = true);
      known.set(name, decision);
      basis.decisions.push(decision);
    },
    handedOn: ({ permissions, rules, allowed_hosts }) =>
      void basis.handedOn.push({ permissions: [...permissions], rules, allowed_hosts }),
    logged: (row) => {
      const { operation, entity_type, entity_ids, message, disclosure } = row;
      const { destination_host, is_list, reactor_id, proxy_id } = row;
      const what = { operation, entity_type, entity_ids, message, disclosure };
      const noted: LoggedDeed = { ...what, destination_host, is_list, reactor_id, proxy_id };
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
    readableUntil: (at) => {
      basis.readable_until = Math.min(basis.readable_until ?? Infinity, at.getTime());
    },
  };
};

/** Does work whose rows of the log are written together or not at all: where it fails, the answer has none of them. */
export const allOrNothing = async <T>(caller: Caller, work: (caller: Caller) => Promise<T>): Promise<T> => {
  const { record } = caller;
  if (!record) return work(caller);
  const rows = new Set<LoggedDeed>();
  const noting = (row: LoggedDeed): LoggedDeed => {
    const noted = record.logged(row);
    rows.add(noted);
    return noted;
  };
  try {
    return await work({ ...caller, record: { ...record, logged: noting } });
  } catch (error) {
    record.notLogged(rows);
    throw error;
  }
};

/** Whether a rule of the caller's looks at the ids of tokens where it decides over a permission. */
const looksAtIds = ({ rules }: Caller, permission: Permission): boolean =>
  rules.some(
    ({ permissions, conditions }) =>
      permissions.includes(permission) && conditions?.some(({ attribute }) => attribute === 'id'),
  );

/** A token that a decision is over: one that is stored, or one that the request makes. */
type DecidedToken = { id?: string | undefined; container: string };

/**
 * Notes a decision over a stored token: it is decided again over where the token is then.
 * @param shown how much of its value the answer may have, by this permission.
 * @param kept the token's own mask, where it is shown masked.
 */
export const noteDecision = (
  { record, actor_id }: Pick<Caller, 'record' | 'actor_id'>,
  permission: Permission,
  { id, container }: DecidedToken,
  shown: Visibility,
  kept?: { mask?: unknown },
): void => {
  const mask = record && kept && shown === 'masked' ? { mask: digestOfMask(kept) } : undefined;
  record?.decided({ actor_id, permission, id, container, shown, isStored: true, ...mask });
};

/**
 * Notes a decision over a token that the request makes. Its id counts only for rules about ids: ten thousand tokens in one
 * container are one decision.
 */
export const noteDecisionOverNew = (
  caller: Caller,
  permission: Permission,
  { id, container, hasMask }: DecidedToken & { hasMask: boolean },
  shown: Visibility,
): void => {
  const { record, actor_id } = caller;
  const noted = looksAtIds(caller, permission) ? id : undefined;
  record?.decided({ actor_id, permission, id: noted, container, shown, hasMask });
};
