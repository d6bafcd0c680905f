// Checks a restored scratch database: its counts, and whether the root key opens tokens of every tenant.
import { LEAST_ID } from '../platform/crypto/ids.ts';
import { openToken } from '../modules/tokens/tokens.ts';
import type { CommandIo } from './command.ts';
import { createContext } from '../modules.ts';
import type { Config } from '../platform/config/config.ts';
import type { Manifest } from '../platform/db/backup/dump.ts';
import { countRows, listTenantIds, sampleTokens } from '../platform/db/backup/scratch.ts';
import { inSession } from '../platform/db/backup/session.ts';

/** The oldest and the newest tokens that are opened of each tenant. */
const SAMPLE_OF_EACH_END = 25;
const TENANTS_AT_A_TIME = 1_000;

/** Prints the report. @param isChanged whether an erasure list or migrations may have changed the counts since they were checked. @returns whether all counts are right and every sampled token opens. */
export const verifyRestored = async (
  io: CommandIo,
  config: Config,
  manifest: Manifest,
  isChanged: boolean,
): Promise<boolean> => {
  const ctx = await createContext(config, 'command', io.overrides);
  try {
    return await inSession({ connectionString: config.databaseUrl }, async (session) => {
      const wrong: string[] = [];
      let rows = 0;
      for (const { name, rows: promised } of manifest.tables) {
        const count = await countRows(session, name);
        rows += count;
        if (count !== promised && !isChanged) wrong.push(`${name} has ${count} rows in place of ${promised}`);
      }
      let tenants = 0;
      let sampled = 0;
      for (let ids: string[], after = LEAST_ID; ; after = ids.at(-1) as string) {
        ids = await listTenantIds(session, after, TENANTS_AT_A_TIME);
        if (ids.length === 0) break;
        tenants += ids.length;
        for (const tenant_id of ids) {
          let failed = 0;
          const tokens = await sampleTokens(session, tenant_id, SAMPLE_OF_EACH_END);
          const keys = await ctx.keyring.tenantKeys(tenant_id).catch(() => undefined);
          if (!keys) wrong.push(`tenant ${tenant_id}: its keys do not open`);
          for (const token of keys ? tokens : [])
            try {
              openToken(ctx, tenant_id, token, keys as NonNullable<typeof keys>);
            } catch {
              failed += 1;
            }
          sampled += tokens.length;
          if (failed > 0) wrong.push(`tenant ${tenant_id}: ${failed} of ${tokens.length} sampled tokens do not open`);
        }
      }
      const counted = isChanged ? 'after the erasure list and the migrations' : 'as the manifest says';
      const summary =
        wrong.length === 0
          ? `${rows} rows in ${manifest.tables.length} tables, ${counted}. ${sampled} sampled tokens of ${tenants} tenants open.`
          : wrong.join('\n');
      io.print(summary);
      return wrong.length === 0;
    });
  } finally {
    await ctx.close();
  }
};
