// Statements of answers about access. They read columns that no value is in.
import type { DailyLimit } from '../../platform/base/application-limits.ts';
import type { TenantDatabase } from '../../platform/db/database.ts';

/** A token without its value. `masked`: whether it has a mask. */
export type TokenPlace = { id: string; container: string; masked: boolean; expires_at: Date | null };

/** Also one that has expired and is not deleted yet. Undefined too for a token of another tenant. */
export const findTokenPlace = async (
  { prisma, tenant_id }: TenantDatabase,
  id: string,
): Promise<TokenPlace | undefined> => {
  const select = { id: true, container: true, masked: true, expires_at: true };
  return (await prisma((client) => client.tokens.findFirst({ where: { tenant_id, id }, select }))) ?? undefined;
};

/** How many tokens a daily limit has counted on a day, and whether this one is among them. */
export const findDailyCount = async (
  { prisma, tenant_id }: TenantDatabase,
  { application_id, limit, day }: { application_id: string; limit: DailyLimit; day: string },
  token_id: string | undefined,
): Promise<{ counted: number; isCounted: boolean }> => {
  const where = { tenant_id, application_id, limit_name: limit, day: new Date(day) };
  const budget = await prisma((client) => client.daily_budgets.findFirst({ where }));
  if (!budget) return { counted: 0, isCounted: false };
  const { id: budget_id, counted } = budget;
  if (token_id === undefined) return { counted, isCounted: false };
  const found = await prisma((client) => client.daily_tokens.count({ where: { tenant_id, budget_id, token_id } }));
  return { counted, isCounted: found > 0 };
};
