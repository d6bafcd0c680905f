// Records the access decisions behind the answer of a request with an idempotency key.
import type { Work } from './work.ts';
import { digestOfMask, type LoggedOperation } from './answer-record.ts';
import type { Visibility } from './access-rule.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';

/** Runs work that writes its log rows together or not at all. Where it fails, none of them is recorded. */
export const allOrNothing = async <T>(work: Work, run: (work: Work) => Promise<T>): Promise<T> => {
  const { record } = work;
  if (!record) return run(work);
  const rows = new Set<LoggedOperation>();
  const noting = (row: LoggedOperation): LoggedOperation => {
    const noted = record.logged(row);
    rows.add(noted);
    return noted;
  };
  try {
    return await run(work.with({ record: { ...record, logged: noting } }));
  } catch (error) {
    record.notLogged(rows);
    throw error;
  }
};

/** Whether a rule of the caller for a permission has a condition on ids of tokens. */
const looksAtIds = ({ rules }: Pick<Caller, 'rules'>, permission: Permission): boolean =>
  rules.some(
    ({ permissions, conditions }) =>
      permissions.includes(permission) && conditions?.some(({ attribute }) => attribute === 'id'),
  );

/** The token of a decision: stored, or about to be created by the request. */
type DecidedToken = { id?: string | undefined; container: string };

/**
 * Records a decision over a stored token. A replay decides again, for the container that the token has then.
 * @param shown how much of the value the answer may have under this permission.
 * @param kept the token's own mask, where it is shown masked.
 */
export const noteDecision = (
  { record, actor_id }: Pick<Work, 'record' | 'actor_id'>,
  permission: Permission,
  { id, container }: DecidedToken,
  shown: Visibility,
  kept?: { mask?: unknown },
): void => {
  const mask = record && kept && shown === 'masked' ? { mask: digestOfMask(kept) } : undefined;
  record?.decided({ actor_id, permission, id, container, shown, isStored: true, ...mask });
};

/**
 * Records a decision over a token that the request creates. The id is recorded only where rules have conditions on ids: ten
 * thousand tokens in one container are one decision.
 */
export const noteDecisionOverNew = (
  work: Work,
  permission: Permission,
  { id, container, hasMask }: DecidedToken & { hasMask: boolean },
  shown: Visibility,
): void => {
  const { record, actor_id } = work;
  const noted = looksAtIds(work.caller, permission) ? id : undefined;
  record?.decided({ actor_id, permission, id: noted, container, shown, hasMask });
};
