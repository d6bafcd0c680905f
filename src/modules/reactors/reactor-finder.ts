// Finds a reactor for a run, with its code, contracts and configuration decrypted, in a cache of one second.
import { findReactorForRun } from './rows.ts';
import type { Caller } from '../access/caller.ts';
import { type EchoMode, echoModeOf } from '../access/echo-mode.ts';
import { type Change, createCache, EVERY_TENANT } from '../../platform/base/cache.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { AppError, conflict } from '../../platform/base/errors.ts';
import { type DigestKey, pinDigest } from '../../platform/crypto/digest.ts';
import { sortedJson } from '../../platform/crypto/seal.ts';
import type { FindPin } from '../access/bounds.ts';
import { codePlace, type Contracts, contractsOf } from '../code/formulas.ts';
import { type Configuration, openConfiguration, reactorNotFound } from './reactors.ts';
import { openText, type Sealing } from '../../platform/keys/sealed-text.ts';

/** How long a process may run a reactor that another process has changed, where the notice of the change got lost. */
const RUNNABLE_MS = 1_000;
/** Reactors cached per process, each with up to 50,000 characters of code. */
const RUNNABLES_MAX = 200;

export type ReactorForRun = {
  tenant_id: string;
  id: string;
  formula: Contracts & {
    id: string;
    code: string;
    /** Changes with the formula and with the reactor. */
    version: string;
  };
  configuration: Configuration;
  /** Undefined for none, and where it is gone. */
  application_id: string | undefined;
  /** Undefined where the reactor says nothing: then the setting of the tenant holds. */
  echo_guard: EchoMode | undefined;
  tenant_echo_guard: EchoMode | undefined;
};

export type ReactorFinder = {
  /** All that an invocation needs. Writes no log row: the invocation does. @throws notFound. */
  findReactorForRun(work: Pick<Caller, 'tenant_id'>, id: string): Promise<ReactorForRun>;
};

/** The official formulas of the release, by their ids. */
export type ReadOfficial = () => Promise<readonly (Contracts & { id: string; code: string })[]>;

type Opening = Pick<Platform, 'db' | 'keyring'> & Sealing & { readOfficial: ReadOfficial };

/**
 * The code of official formulas is not encrypted. An attacker who can write to the database could run code on the values of
 * every tenant: an official formula runs only as the release has it.
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
    'An official formula in the database differs from the release and does not run. Find out who changed it, then run: strongroom admin formulas install',
  );
  throw conflict(
    'The official formula of this reactor is not the one of the installed release, so it does not run. The operator can install it again.',
  );
};

/** Whether a change concerns what a reactor or a proxy runs with. */
export const isRunnableStale = (
  { tenant_id, application_id }: { tenant_id: string; application_id: string | undefined },
  { subject, id }: Change,
): boolean =>
  subject === 'application' ? application_id === id : subject !== 'member' && (tenant_id === id || id === EVERY_TENANT);

export const createReactorFinder = (ctx: Opening & Pick<Platform, 'changes' | 'monotonicMs'>): ReactorFinder => {
  const cache = createCache<ReactorForRun>({
    max: RUNNABLES_MAX,
    ttlMs: RUNNABLE_MS,
    monotonicMs: ctx.monotonicMs,
    changes: ctx.changes,
    isStale: isRunnableStale,
  });
  return {
    async findReactorForRun({ tenant_id }, id) {
      const found = await cache.find(`${tenant_id} ${id}`, () => loadReactorForRun(ctx, tenant_id, id));
      if (!found) throw reactorNotFound();
      return found;
    },
  };
};

const loadReactorForRun = async (ctx: Opening, tenant_id: string, id: string): Promise<ReactorForRun | undefined> => {
  const row = await findReactorForRun(ctx.db.for({ tenant_id }), id);
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
    echo_guard: echoModeOf(row.echo_guard),
    tenant_echo_guard: echoModeOf(row.settings['echo_guard']),
  };
};

/** What a bound pins of a reactor: its code, and what the code runs with, which may say where it sends values. */
export const pinOfReactor = (
  key: DigestKey,
  { id, formula, configuration, application_id = '' }: ReactorForRun,
): string => pinDigest(key, 'reactor', id, [formula.code, sortedJson(configuration), application_id]);

export const findReactorPin =
  (reactors: ReactorFinder): FindPin =>
  async (tenant_id, id) => {
    const reactor = await reactors.findReactorForRun({ tenant_id }, id).catch((error: unknown) => {
      if (error instanceof AppError && error.code === 'not_found') return undefined;
      throw error;
    });
    return reactor && { pin: (key) => pinOfReactor(key, reactor) };
  };
