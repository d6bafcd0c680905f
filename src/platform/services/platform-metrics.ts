// Reads what the services of the platform hold: shares of tenants, and keys in memory.
import type { Accounts, AccountFigures } from '../base/accounts.ts';
import type { Keyring } from '../crypto/keyring.ts';
import { VERIFIED_TABLES } from '../base/tables.ts';
import { version } from '../base/version.ts';
import { keepBusiest } from '../metrics/busiest-tenants.ts';
import type { Metrics } from '../metrics/metrics.ts';

/** Tenants whose longest callback is shown. */
const LONGEST_SHOWN = 10;

const readAccounts = (metrics: Metrics, accounts: Pick<Accounts, 'figures' | 'budgets'>): void => {
  const each = <Value>(figure: (limit: AccountFigures['limits'][number]) => Value): Value[] =>
    accounts.figures().limits.map(figure);
  metrics.read('strongroom_limit_held', () => each(({ name, held }) => [{ limit: name }, held] as const));
  metrics.read('strongroom_limit_max', () => each(({ name, limit }) => [{ limit: name }, limit.ofAll] as const));
  metrics.read('strongroom_tenant_max', () => each(({ name, limit }) => [{ limit: name }, limit.ofTenantMax] as const));
  metrics.read('strongroom_limit_refusals_total', () =>
    each(({ name, refused }) => [
      [{ limit: name, full: 'tenant' }, refused.tenant] as const,
      [{ limit: name, full: 'server' }, refused.server] as const,
    ]).flat(),
  );
  metrics.read('strongroom_tenant_held', () => {
    const { limits } = accounts.figures();
    const mostOf = new Map<string, number>(limits.map(({ name, limit }) => [name, limit.ofTenantMax]));
    const holdings = limits.flatMap(({ name, holders }) =>
      [...holders()].map(([tenant_id, held]) => ({ limit: name, tenant_id, held })),
    );
    const kept = keepBusiest(holdings, (limit) => mostOf.get(limit) ?? 1);
    return kept.map(({ held, ...labels }) => [labels, held] as const);
  });
  metrics.read('strongroom_longest_callback_seconds', () => {
    const longest = new Map<string, number>();
    for (const [account, ms] of accounts.budgets.takeLongest()) {
      const [tenant_id = ''] = account.split(' ', 1);
      longest.set(tenant_id, Math.max(longest.get(tenant_id) ?? 0, ms));
    }
    const sorted = [...longest].toSorted(([, one], [, other]) => other - one);
    return sorted.slice(0, LONGEST_SHOWN).map(([tenant_id, ms]) => [{ tenant_id }, ms / 1000] as const);
  });
  metrics.read('strongroom_queue_length', () => [[{ queue: 'turns' }, accounts.figures().turns]]);
};

export const readPlatform = (
  metrics: Metrics,
  { accounts, keyring }: { accounts: Pick<Accounts, 'figures' | 'budgets'>; keyring: Pick<Keyring, 'count'> },
): void => {
  for (const table of VERIFIED_TABLES) metrics.count('strongroom_tampered_rows_total', { table }, 0);
  metrics.read('strongroom_build_info', () => [[{ version }, 1]]);
  metrics.read('strongroom_keys_in_memory', () => {
    const { tenant, ephemeral } = keyring.count();
    return [
      [{ kind: 'tenant' }, tenant],
      [{ kind: 'ephemeral' }, ephemeral],
    ];
  });
  readAccounts(metrics, accounts);
};
