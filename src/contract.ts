// Ends an upgrade: brings what earlier versions wrote into the new forms, once no process of them runs.
import { setTimeout as pause } from 'node:timers/promises';
import { makeBindingKeys } from './modules/access/data-keys.ts';
import type { Context } from './modules.ts';
import {
  CONTRACT_NOTICED_MS,
  countOlderConnections,
  endUpgrade,
  findContract,
  recordNewForms,
} from './platform/db/contract.ts';
import { signUnsigned } from './platform/db/sign-everything.ts';
import { raiseWalls } from './platform/db/tenant-walls.ts';
import { StartError } from './platform/errors.ts';

/** Each can be stopped and run again. It runs beside servers of this version, which write the new forms already. */
export type ContractStep = { name: string; run(ctx: Context, report: (line: string) => void): Promise<void> };

const signRows: ContractStep = {
  name: 'Signing rows that authorise',
  run: async ({ config, db }, report) => {
    // What is not signed is an attacker's then: the step must not make it valid.
    if (config.requireSignedRows) return report('Skipped: REQUIRE_SIGNED_ROWS says that all rows are signed.');
    // Users first: members of a signed tenant must find their user signed.
    const users = await signUnsigned(db, 'users');
    const tenants = await signUnsigned(db, 'tenants');
    report(`Signed ${tenants} tenants and ${users} users.`);
  },
};

const steps: readonly ContractStep[] = [
  { name: 'Row-level security for every table of tenants', run: ({ db }) => raiseWalls(db.statements.ask) },
  { name: 'New data keys, so that servers bind tokens to their rows', run: makeBindingKeys },
  signRows,
];

/** A start warning. */
export const UPGRADE_NOT_OVER =
  'the upgrade is not over. When no process of the earlier version runs any more: npm run -s strongroom -- migrate --contract';

/**
 * Ends an upgrade, or does nothing where it is over.
 * @param isAlone whether this is the only process that can reach the database.
 * @throws StartError where a process of an earlier version is connected. Nothing is changed then.
 */
export const contract = async (
  ctx: Context,
  report: (line: string) => void,
  { isAlone }: { isAlone: boolean },
): Promise<void> => {
  const { is_done, has_new_forms } = await findContract(ctx.db);
  if (has_new_forms) return;
  if (!is_done) {
    const older = await countOlderConnections(ctx.db);
    if (older > 0)
      throw new StartError(
        `Processes of an earlier version are connected (${older} connections), so nothing was changed. Stop them, then run it again: npm run -s strongroom -- migrate --contract`,
      );
    await endUpgrade(ctx.db);
    if (!isAlone) {
      report('Waiting until every server knows that the upgrade is over.');
      await pause(CONTRACT_NOTICED_MS);
    }
  }
  await ctx.contract.refresh();
  for (const { name, run } of steps) {
    report(name);
    await run(ctx, report);
  }
  await recordNewForms(ctx.db);
};
