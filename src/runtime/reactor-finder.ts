// A reactor as it is run: code, contracts and configuration in the clear, remembered for a moment, so that the hot path of an
// invocation asks the database for nothing else.
import type { Caller } from '../access/caller.ts';
import { createBriefMemory } from '../brief-memory.ts';
import type { Context } from '../context.ts';
import { conflict } from '../errors.ts';
import { codePlace, type Contracts, contractsOf } from './formulas.ts';
import { type Configuration, openConfiguration, reactorNotFound } from './reactors.ts';
import { openText, type Sealing } from './sealed.ts';

/** How long a process may run what a reactor was before it was changed by another process, and that one's notice got lost. */
const RUNNABLE_MS = 1_000;
/** Reactors remembered per process, each with up to 50,000 characters of code. */
const RUNNABLES_MAX = 200;

export type ReactorForRun = {
  tenant_id: string;
  id: string;
  formula: Contracts & {
    id: string;
    code: string;
    /** Another one whenever the formula or the reactor has changed. */
    version: string;
  };
  configuration: Configuration;
  /** Undefined for none, and where it is gone. */
  application_id: string | undefined;
};

/** Reactors as they are run, remembered for a moment: the hot path of an invocation asks the database for nothing else. */
export type ReactorFinder = {
  /** All that an invocation needs. Logs nothing: what is done with it is. @throws notFound. */
  findReactorForRun(caller: Pick<Caller, 'tenant_id'>, id: string): Promise<ReactorForRun>;
  /** Something that the reactors of a tenant, or of an application, are made of has changed. */
  forget(match: { tenant_id?: string; application_id?: string } | 'all'): void;
};

/** The official formulas of the release, by their ids. */
export type ReadOfficial = () => Promise<readonly (Contracts & { id: string; code: string })[]>;

type Opening = Pick<Context, 'db' | 'keyring'> & Sealing & { readOfficial: ReadOfficial };

/**
 * The code of official formulas is in clear in the database, and whoever can write there could make it run on the values of
 * every tenant: it runs only as the release has it.
 * @throws conflict.
 */
const checkOfficial = async (ctx: Opening, id: string, row: Contracts & { code: string | null }): Promise<void> => {
  const released = (await ctx.readOfficial()).find((formula) => formula.id === id);
  const isReleased =
    released !== undefined &&
    released.code === row.code &&
    JSON.stringify(contractsOf(released)) === JSON.stringify(contractsOf(row));
  if (isReleased) return;
  ctx.log.error(
    { formula_id: id },
    'An official formula in the database differs from the release and does not run. Find out who changed it, then run: strongroom formulas install',
  );
  throw conflict(
    'The official formula of this reactor is not the one of the installed release, so it does not run. The operator can install it again.',
  );
};

export const createReactorFinder = (ctx: Opening & { monotonicMs: () => number }): ReactorFinder => {
  const memory = createBriefMemory<ReactorForRun>({
    max: RUNNABLES_MAX,
    ttlMs: RUNNABLE_MS,
    monotonicMs: ctx.monotonicMs,
  });
  return {
    async findReactorForRun({ tenant_id }, id) {
      const found = await memory.find(`${tenant_id} ${id}`, () => loadReactorForRun(ctx, tenant_id, id));
      if (!found) throw reactorNotFound();
      return found;
    },
    forget: (match) =>
      memory.forget(
        ({ tenant_id, application_id }) =>
          match === 'all' ||
          tenant_id === match.tenant_id ||
          (application_id !== undefined && application_id === match.application_id),
      ),
  };
};

const loadReactorForRun = async (ctx: Opening, tenant_id: string, id: string): Promise<ReactorForRun | undefined> => {
  const row = await ctx.db.for({ tenant_id }).findReactorForRun(id);
  if (!row) return undefined;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  const { formula_id, formula_sealed } = row;
  if (!formula_sealed) await checkOfficial(ctx, formula_id, row);
  const code = formula_sealed ? openText(ctx, keys, codePlace(tenant_id, formula_id), formula_sealed) : row.code;
  return {
    tenant_id,
    id: row.id,
    formula: {
      id: formula_id,
      code: code as string,
      ...contractsOf(row),
      version: `${row.formula_version}.${row.version}`,
    },
    configuration: openConfiguration(ctx, tenant_id, keys, row.id, row.sealed),
    application_id: row.application_id ?? undefined,
  };
};

/**
 * Does a deed and forgets the tenant's reactors in this process before anybody hears of it; others hear it from the database.
 * Whatever came of it: a deed that failed on its way back may have been done.
 */
export const forgetting = async <T>(
  ctx: Pick<Context, 'reactors'>,
  { tenant_id }: Pick<Caller, 'tenant_id'>,
  deed: () => Promise<T>,
): Promise<T> => {
  try {
    return await deed();
  } finally {
    ctx.reactors.forget({ tenant_id });
  }
};
