// Looks up the proxies and reactors that a bound names: pins what they are now, and says which have changed since.
import { badRequest, FieldErrorCollector, invalidInput } from '../../platform/base/errors.ts';
import type { AccessRule } from './access-rule.ts';
import { amountPinOf, type Bound, isPinned, type Pins, type StoredBound, storeBound } from './bounds.ts';
import type { AccessContext } from './context.ts';

/** Each costs a look-up. */
const TARGETS_OF_REQUEST_MAX = 100;

const kinds = { proxies: 'must be the id of a stored proxy', reactors: 'must be the id of a reactor' } as const;

/** A bound of a request, and the path to it. */
export type AskedBound = { bound: Bound; path: readonly (string | number)[] };

/**
 * The bounds of a request as they are stored, in its order.
 * @throws invalidInput at the ids that name nothing of the tenant; badRequest for more than TARGETS_OF_REQUEST_MAX; unavailable.
 */
export const pinBounds = async (
  ctx: Pick<AccessContext, 'keyring' | 'boundTargets'>,
  tenant_id: string,
  asked: readonly (AskedBound | undefined)[],
): Promise<(StoredBound | undefined)[]> => {
  const problems = new FieldErrorCollector();
  const stored = await pinEach(ctx, tenant_id, asked, () => problems);
  if (problems.count > 0) throw invalidInput(problems.errors);
  return stored;
};

/**
 * Does the same as `pinBounds`, for a partial batch.
 * @param problemsOf collects, for the bound at an index, the ids that name nothing of the tenant. It may be the same for several.
 */
export const pinEach = async (
  ctx: Pick<AccessContext, 'keyring' | 'boundTargets'>,
  tenant_id: string,
  asked: readonly (AskedBound | undefined)[],
  problemsOf: (index: number) => FieldErrorCollector,
): Promise<(StoredBound | undefined)[]> => {
  if (asked.every((each) => each === undefined)) return [];
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const found = new Map<string, Pins | undefined>();
  const pinsOf = async (kind: keyof typeof kinds, id: string): Promise<Pins | undefined> => {
    const name = `${kind} ${id}`;
    if (found.has(name)) return found.get(name);
    if (found.size === TARGETS_OF_REQUEST_MAX)
      throw badRequest(`A request may name at most ${TARGETS_OF_REQUEST_MAX} proxies and reactors in bounds.`);
    const target = await ctx.boundTargets[kind]?.(tenant_id, id);
    found.set(name, target);
    return target;
  };
  const stored: (StoredBound | undefined)[] = [];
  for (const [index, each] of asked.entries()) {
    const { bound, path = [] } = each ?? {};
    const problems = problemsOf(index);
    const pins: Record<string, string> = {};
    for (const kind of ['proxies', 'reactors'] as const)
      for (const [at, id] of (bound?.[kind] ?? []).entries()) {
        const target = await pinsOf(kind, id);
        if (!target) problems.add([...path, kind, at], kinds[kind], 'not_found');
        else pins[id] = target.pin(keys.digest);
        if (target?.pinOfAmount && bound?.allowance) pins[amountPinOf(id)] = target.pinOfAmount(keys.digest);
      }
    if (problems.stopped) break;
    stored.push(bound && storeBound(bound, Object.keys(pins).length > 0 ? pins : undefined));
  }
  return stored;
};

/** A rule, by its place, and the proxies and reactors of its bound that get no value, because they have changed or are gone. */
export type SuspendedRule = { rule: number; proxies?: string[]; reactors?: string[] };

/** Rules that were stored name no more targets than one request may. */
export const findSuspended = async (
  { keyring, boundTargets }: Pick<AccessContext, 'keyring' | 'boundTargets'>,
  tenant_id: string,
  rules: readonly AccessRule[],
): Promise<SuspendedRule[]> => {
  if (!rules.some(({ bound_to: bound }) => bound?.proxies ?? bound?.reactors)) return [];
  const { digest } = await keyring.tenantKeys(tenant_id);
  const suspended: SuspendedRule[] = [];
  for (const [rule, { bound_to: bound }] of rules.entries()) {
    if (!bound) continue;
    const changed: Omit<SuspendedRule, 'rule'> = {};
    for (const kind of ['proxies', 'reactors'] as const)
      for (const id of bound[kind] ?? []) {
        const target = await boundTargets[kind]?.(tenant_id, id);
        if (!target || !isPinned(bound, { id, ...target }, digest)) changed[kind] = [...(changed[kind] ?? []), id];
      }
    if (Object.keys(changed).length > 0) suspended.push({ rule, ...changed });
  }
  return suspended;
};
