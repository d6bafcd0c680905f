import { expect, test } from 'vitest';
import { keepBusiest, TENANTS_MAX } from './busiest-tenants.ts';

const most: Record<string, number> = { runs: 10, body_bytes: 1_000_000 };
const mostOf = (limit: string): number => most[limit] as number;

const holdings = Array.from({ length: TENANTS_MAX + 10 }, (_, index) => ({
  limit: 'body_bytes',
  tenant_id: `tenant-${index}`,
  held: 1000 + index,
}));

test('tenants within the limit keep figures of their own', () => {
  expect(keepBusiest(holdings.slice(0, TENANTS_MAX), mostOf)).toEqual(holdings.slice(0, TENANTS_MAX));
});

test('of more tenants those with the largest shares keep theirs, and the rest is added up', () => {
  const small = { limit: 'runs', tenant_id: 'tenant-0', held: 1 };
  const kept = keepBusiest([...holdings, small], mostOf);
  const tenants = new Set(kept.map(({ tenant_id }) => tenant_id));
  expect(tenants.size).toBe(TENANTS_MAX + 1);
  // A tenth of the runs is more than a thousandth of the bytes.
  expect(tenants).toContain('tenant-0');
  expect(tenants).not.toContain('tenant-1');
  expect(kept.find(({ tenant_id }) => tenant_id === 'other')).toEqual({
    limit: 'body_bytes',
    tenant_id: 'other',
    held: Array.from({ length: 10 }, (_, index) => 1001 + index).reduce((sum, held) => sum + held),
  });
  const sum = (list: { held: number }[]): number => list.reduce((total, { held }) => total + held, 0);
  expect(sum(kept)).toBe(sum([...holdings, small]));
});

test('figures that were added up before are added once more, and take no place', () => {
  const other = { limit: 'body_bytes', tenant_id: 'other', held: 500_000 };
  const kept = keepBusiest([...holdings, other], mostOf);
  expect(kept.filter(({ tenant_id }) => tenant_id === 'other')).toHaveLength(1);
  expect(new Set(kept.map(({ tenant_id }) => tenant_id)).size).toBe(TENANTS_MAX + 1);
});
