// What an answer rests on: the decisions over tokens, the rights that were handed on, and the rows of the log. A kept answer is
// given again only where all of it would be decided so today. Knows no database.
import type { LogRow } from '../audit/record.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';
import type { AccessRule, Transform } from './rules.ts';

/** Decisions that an answer is kept with. Code may read thousands of tokens: what rests on more is not given again. */
const DECISIONS_MAX = 5_000;

/** A permission that was looked at. Without a container: whether it is held at all. */
export type Decision = {
  /** The caller, or the application on whose behalf code asked. */
  actor_id: string;
  permission: Permission;
  id?: string | undefined;
  container?: string | undefined;
  transform?: Transform | undefined;
  /** The token was there before: what counts is where it is when the answer is given again. */
  isStored?: boolean;
};

/** Rights that were handed on with the answer, such as those of an API key in it. */
export type HandedOn = {
  permissions: Permission[];
  rules: readonly AccessRule[];
  allowed_hosts?: readonly string[] | undefined;
};

export type LoggedDeed = Pick<LogRow, 'operation' | 'entity_type' | 'entity_ids' | 'message' | 'disclosure'>;

export type AnswerBasis = {
  decisions: Decision[];
  handedOn: HandedOn[];
  logged: LoggedDeed[];
  /** The answer may hold something that ceases to exist then, in ms since 1970. */
  readable_until?: number | undefined;
  /** There were more decisions than are kept. */
  isTooLarge: boolean;
};

/** Notes what the answer of a request rests on. */
export type AnswerRecord = {
  readonly basis: AnswerBasis;
  decided(decision: Decision): void;
  handedOn(rights: HandedOn): void;
  logged(row: LoggedDeed): void;
  /** The answer may hold what ceases to exist at a time: it is not given again from then on. */
  readableUntil(at: Date): void;
};

export const createAnswerRecord = (): AnswerRecord => {
  const basis: AnswerBasis = { decisions: [], handedOn: [], logged: [], isTooLarge: false };
  const known = new Set<string>();
  return {
    basis,
    decided: (decision) => {
      const name = JSON.stringify(decision);
      if (known.has(name)) return;
      if (known.size >= DECISIONS_MAX) return void (basis.isTooLarge = true);
      known.add(name);
      basis.decisions.push(decision);
    },
    handedOn: ({ permissions, rules, allowed_hosts }) =>
      void basis.handedOn.push({ permissions: [...permissions], rules, allowed_hosts }),
    logged: ({ operation, entity_type, entity_ids, message, disclosure }) =>
      void basis.logged.push({ operation, entity_type, entity_ids, message, disclosure }),
    readableUntil: (at) => {
      basis.readable_until = Math.min(basis.readable_until ?? Infinity, at.getTime());
    },
  };
};

/** Whether a rule of the caller's looks at the ids of tokens where it decides over a permission. */
const looksAtIds = ({ rules }: Caller, permission: Permission): boolean =>
  rules.some(
    ({ permissions, conditions }) =>
      permissions.includes(permission) && conditions?.some(({ attribute }) => attribute === 'id'),
  );

/** A token that a decision is over: one that is stored, or one that the request makes. */
type DecidedToken = { id?: string | undefined; container: string };

/** Notes a decision over a stored token: it is decided again over where the token is then. */
export const noteDecision = (
  { record, actor_id }: Pick<Caller, 'record' | 'actor_id'>,
  permission: Permission,
  { id, container }: DecidedToken,
  transform: Transform,
): void => record?.decided({ actor_id, permission, id, container, transform, isStored: true });

/**
 * Notes a decision over a token that the request makes. Its id counts only for rules about ids: ten thousand tokens in one
 * container are one decision.
 */
export const noteDecisionOverNew = (
  caller: Caller,
  permission: Permission,
  { id, container }: DecidedToken,
  transform: Transform,
): void => {
  const { record, actor_id } = caller;
  record?.decided({ actor_id, permission, id: looksAtIds(caller, permission) ? id : undefined, container, transform });
};
