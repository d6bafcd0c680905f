// Keeps the figures of the busiest tenants and adds up the rest: a label must not have as many values as there are tenants.

/** Tenants with figures of their own. */
export const TENANTS_MAX = 50;

/** What a tenant holds of a limit. */
export type Holding = { limit: string; tenant_id: string; held: number };

const OTHER = 'other';

/**
 * The holdings of the tenants that hold the largest share of any limit; those of the others under `other`.
 * @param mostOf the most that one tenant may hold of a limit.
 */
export const keepBusiest = (holdings: readonly Holding[], mostOf: (limit: string) => number): Holding[] => {
  const shares = new Map<string, number>();
  for (const { limit, tenant_id, held } of holdings)
    shares.set(tenant_id, Math.max(shares.get(tenant_id) ?? 0, held / mostOf(limit)));
  shares.delete(OTHER);
  if (shares.size <= TENANTS_MAX) return [...holdings];
  const busiest = new Set(
    [...shares]
      .toSorted(([, one], [, other]) => other - one)
      .slice(0, TENANTS_MAX)
      .map(([tenant_id]) => tenant_id),
  );
  const others = new Map<string, number>();
  for (const { limit, tenant_id, held } of holdings)
    if (!busiest.has(tenant_id)) others.set(limit, (others.get(limit) ?? 0) + held);
  return [
    ...holdings.filter(({ tenant_id }) => busiest.has(tenant_id)),
    ...[...others].map(([limit, held]) => ({ limit, tenant_id: OTHER, held })),
  ];
};
