// POST /access/simulate: what a change of an application would have done to its requests of the last days, as the log has them.
import { AppError, forbidden, notFound, unprocessable } from '../../platform/base/errors.ts';
import { DAY_MS } from '../../platform/base/times.ts';
import { firstIdAt, GREATEST_ID } from '../../platform/crypto/ids.ts';
import { ACCESS_SIMULATED, logRow, tokenEntities } from '../../platform/db/audit-record.ts';
import { isOnList } from '../../platform/egress/destination.ts';
import { withoutNulls } from '../../platform/base/optional.ts';
import { mapInSlices } from '../../platform/json/slices.ts';
import type { AskedRule, Visibility } from '../access/access-rule.ts';
import { tryChange } from '../access/applications.ts';
import { allowsLogged } from '../access/bounds.ts';
import { isPermission, type Permission, publicPermissions } from '../access/permissions.ts';
import { findApplication } from '../access/rows/applications.ts';
import { byPriority, type DecidingRights } from '../access/rule-walk.ts';
import { findDeciderFor, holdsAnywhere, mayAnywhere, transformUnder, visibilityUnder } from '../access/rules.ts';
import type { Work } from '../access/work.ts';
import type { AnswersContext } from './context.ts';
import { findPlaces, listActs, type LoggedAct, type TokenPlace } from './rows.ts';

/** Decisions of one answer: at 2 µs each, and 100 statements. The newest are examined. */
export const EXAMINED_MAX = 100_000;
/** Samples of one answer: as many as a page shows. */
export const SAMPLES_MAX = 50;
export const DAYS_MAX = 30;

export type Simulation = {
  application_id: string;
  /** Undefined: as they are. */
  permissions?: Permission[] | undefined;
  rules?: AskedRule[] | undefined;
  /** Null: not limited. */
  allowed_hosts?: string[] | null | undefined;
  days: number;
};

export type Sample = {
  log_id: string;
  permission: Permission;
  entity_type: string;
  entity_id: string;
  container: string | undefined;
  destination_host: string | undefined;
  was: Visibility | 'refused';
  would_be: Visibility | 'refused';
};

export type Changed = { count: number; samples: Sample[] };

export type Simulated = {
  examined: number;
  /** Count of examined decisions about tokens that are gone, or operations that no permission is known of. */
  unknown: number;
  newly_refused: Changed;
  newly_allowed: Changed;
  shows_more: Changed;
  shows_less: Changed;
};

type Rights = DecidingRights & { allowed_hosts: readonly string[] | undefined };

const tokenTypes: ReadonlySet<string> = new Set(tokenEntities);

/** Permission areas of entities whose permissions have another name. */
const areas: Record<string, string> = {
  reactor_formula: 'reactor',
  tenant_member: 'tenant:member',
  tenant_invitation: 'tenant:invitation',
};

/** The permission that an operation needed; undefined where the log does not say. */
const permissionOf = ({ operation, entity_type }: LoggedAct): Permission | undefined => {
  const isUse = operation === 'use';
  const area = isUse || tokenTypes.has(entity_type) ? 'token' : (areas[entity_type] ?? entity_type);
  const name = `${area}:${operation}`;
  return isPermission(name) ? name : undefined;
};

/** An entry of the log names a port where it is not 443. */
const mayReach = ({ allowed_hosts }: Rights, host: string | null): boolean =>
  host === null || allowed_hosts === undefined || isOnList(allowed_hosts, host.replace(/:\d+$/, ''));

const degrees = { refused: 0, nothing: 1, masked: 2, value: 3 } as const;

type Degree = keyof typeof degrees;

const degreeUnder = (rights: Rights, permission: Permission, act: LoggedAct, place?: TokenPlace): Degree => {
  if (!mayReach(rights, act.destination_host)) return 'refused';
  if (!place) return holdsAnywhere(rights, permission) ? 'nothing' : 'refused';
  const decider = findDeciderFor(rights, permission, place);
  if (!decider) return 'refused';
  if (permission !== 'token:use')
    return visibilityUnder(permission, transformUnder(place.bound_to, decider.transform), place.masked);
  const { destination_host, reactor_id, proxy_id } = act;
  const logged = withoutNulls({ destination_host, reactor_id, proxy_id });
  if (decider.bound_to && !allowsLogged(decider.bound_to, logged)) return 'refused';
  return visibilityUnder(permission, decider.transform, place.masked);
};

const changedTo = (before: Degree, after: Degree): Exclude<keyof Simulated, 'examined' | 'unknown'> | undefined => {
  if (before === after) return undefined;
  if (after === 'refused') return 'newly_refused';
  if (before === 'refused') return 'newly_allowed';
  return degrees[after] > degrees[before] ? 'shows_more' : 'shows_less';
};

const nothingChanged = (): Changed => ({ count: 0, samples: [] });

/** Decides each entity of an entry under both rights. Pure but for what it adds to the result. */
const examine = (
  found: Simulated,
  act: LoggedAct,
  places: ReadonlyMap<string, TokenPlace>,
  { before, after }: { before: Rights; after: Rights },
): void => {
  const permission = permissionOf(act);
  const isOnToken = tokenTypes.has(act.entity_type);
  for (const entity_id of act.entity_ids.slice(0, EXAMINED_MAX - found.examined)) {
    found.examined += 1;
    const place = isOnToken ? places.get(entity_id) : undefined;
    if (permission === undefined || (isOnToken && !place)) {
      found.unknown += 1;
      continue;
    }
    const was = degreeUnder(before, permission, act, place);
    const would_be = degreeUnder(after, permission, act, place);
    const name = changedTo(was, would_be);
    if (!name) continue;
    found[name].count += 1;
    const { entity_type, id: log_id } = act;
    const sample = { log_id, permission, entity_type, entity_id, container: place?.container, was, would_be };
    if (found[name].samples.length < SAMPLES_MAX)
      found[name].samples.push({ ...sample, destination_host: act.destination_host ?? undefined });
  }
};

/**
 * Nothing is changed.
 * @throws forbidden without `application:read`; notFound; unprocessable for what a save would refuse; payloadTooLarge where it takes more CPU time than a request may use.
 */
export const simulateChange = async (ctx: AnswersContext, work: Work, asked: Simulation): Promise<Simulated> => {
  if (!mayAnywhere(work, 'application:read')) throw forbidden('application:read');
  const { db, tenant_id } = work;
  const row = await findApplication(db, asked.application_id);
  if (!row) throw notFound('application');
  const { before, after } = await refuseUnsaved(() => tryChange(ctx, work, row, asked));
  const isPublic = row.type === 'public';
  const rightsOf = ({ permissions, rules, allowed_hosts }: typeof before): Rights => ({
    permissions: new Set(permissions.filter((each) => !isPublic || publicPermissions.includes(each))),
    rules: isPublic ? [] : byPriority(rules),
    allowed_hosts,
  });
  const rights = { before: rightsOf(before), after: rightsOf(after) };
  const found: Simulated = {
    examined: 0,
    unknown: 0,
    newly_refused: nothingChanged(),
    newly_allowed: nothingChanged(),
    shows_more: nothingChanged(),
    shows_less: nothingChanged(),
  };
  const from_id = firstIdAt(ctx.now().getTime() - asked.days * DAY_MS);
  const places = new Map<string, TokenPlace>();
  for (let to_id = GREATEST_ID; found.examined < EXAMINED_MAX;) {
    const acts = await listActs(db, { actor_id: row.id, from_id, to_id });
    const last = acts.at(-1);
    if (!last) break;
    to_id = last.id;
    const ids = new Set(acts.filter((act) => tokenTypes.has(act.entity_type)).flatMap((act) => act.entity_ids));
    const unread = [...ids].filter((id) => !places.has(id));
    for (const place of await findPlaces(db, unread)) places.set(place.id, place);
    await ctx.accounts.runInTurns(
      tenant_id,
      mapInSlices(acts, (act) => examine(found, act, places, rights)),
    );
  }
  const of = { entity_type: 'application', entity_ids: [row.id] };
  await work.log([logRow(ctx, work, { operation: 'read', ...of, message: ACCESS_SIMULATED })]);
  return found;
};

/** What a save would refuse by another status is not valid here. */
const refuseUnsaved = async <T>(check: () => Promise<T>): Promise<T> => {
  try {
    return await check();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const sentences = (error.fieldErrors ?? []).map(({ path, sentence }) => `${path} ${sentence}`);
    throw unprocessable(`A save would refuse this: ${[error.message, ...sentences].join(' ')}`);
  }
};
