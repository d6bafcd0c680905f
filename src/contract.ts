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
import { hasUnsigned, signUnsigned } from './platform/db/sign-everything.ts';
import { raiseWalls } from './platform/db/tenant-walls.ts';
import { allowUnsignedRows } from './platform/db/unsigned-logs.ts';
import { StartError } from './platform/errors.ts';
import { PROGRAM } from './platform/program.ts';

/** Each can be stopped and run again. It runs beside servers of this version, which write the new forms already. */
export type ContractStep = { name: string; run(ctx: Context, report: (line: string) => void): Promise<void> };

const signRows: ContractStep = {
  name: 'Signing rows that authorise',
  run: async ({ db }, report) => {
    // Users first: members of a signed tenant must find their user signed.
    let users = 0;
    let tenants = 0;
    // A server that noticed late may have added some meanwhile.
    do {
      users += await signUnsigned(db, 'users');
      tenants += await signUnsigned(db, 'tenants');
    } while (await hasUnsigned(db));
    report(`Signed ${tenants} tenants and ${users} users.`);
  },
};

const steps: readonly ContractStep[] = [
  { name: 'Row-level security for every table of tenants', run: ({ db }) => raiseWalls(db.statements.ask) },
  { name: 'New data keys, so that servers bind tokens to their rows', run: makeBindingKeys },
  signRows,
  { name: 'A MAC for each new row of the audit log', run: ({ db, now }) => allowUnsignedRows(db, now()) },
];

/** A start warning. */
export const UPGRADE_NOT_OVER = `the upgrade is not over. When no process of the earlier version runs any more: ${PROGRAM} migrate --contract`;

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
  if ((await findContract(ctx.db)).has_new_forms) return;
  const older = await countOlderConnections(ctx.db);
  if (older > 0)
    throw new StartError(
      `Processes of an earlier version are connected (${older} connections), so nothing was changed. Stop them, then run it again: ${PROGRAM} migrate --contract`,
    );
  if (ctx.config.requireSignedRows && (await hasUnsigned(ctx.db)))
    throw new StartError(
      'REQUIRE_SIGNED_ROWS is true, and this vault has tenants or people without a MAC, so nothing was changed. After an upgrade or a restore of an earlier version, remove the variable, end the upgrade, and set it again. Otherwise somebody has written to the database: docs/operations/upgrade.md',
    );
  await endUpgrade(ctx.db);
  // Also in a second run: the first may have been stopped here.
  if (!isAlone) {
    report('Waiting until every server knows that the upgrade is over.');
    await pause(CONTRACT_NOTICED_MS);
  }
  await ctx.contract.refresh();
  for (const { name, run } of steps) {
    report(name);
    await run(ctx, report);
  }
  await recordNewForms(ctx.db);
};
