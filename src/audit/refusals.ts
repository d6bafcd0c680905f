// Logs what was refused to a caller. A caller in a loop must not fill the log: so many refusals of a tenant are written in a
// minute, by all processes together, and those beyond are counted in one more row. Failed sign-ins, which need no key, are
// counted apart: neither kind of refusal hides the other.
import type { Caller } from '../access/caller.ts';
import type { Context } from '../context.ts';
import { firstIdAt } from '../crypto/ids.ts';
import type { AppError } from '../errors.ts';
import { isStorableText } from '../vault/json.ts';
import { TOKEN_ID_LENGTH_MAX } from '../vault/token-id.ts';
import {
  type Actor,
  logRow,
  type LogClock,
  type LogRow,
  type Operation,
  SIGN_IN_FAILED,
  vaultItself,
} from './record.ts';

/** Refusals of a tenant that are written in a minute, and as many failed sign-ins: enough to see what goes on, and no more than a page or two. */
export const REFUSALS_PER_MINUTE_MAX = 60;
const MINUTE_MS = 60_000;

/** Paths name what they like: what no id can be is not written, for the database refuses it and the row would be lost. */
const isLoggable = (id: string): boolean => id.length <= TOKEN_ID_LENGTH_MAX && isStorableText(id);

/** What a permission is about, by the log's names. */
const entityTypes: Record<string, string> = {
  token: 'token',
  application: 'application',
  log: 'log',
  reactor: 'reactor',
  proxy: 'proxy',
  tenant: 'tenant',
  'tenant:member': 'tenant_member',
  'tenant:invitation': 'tenant_invitation',
  report: 'tenant',
};

const operationOf: Record<string, Operation> = {
  create: 'create',
  read: 'read',
  search: 'read',
  update: 'update',
  delete: 'delete',
  use: 'use',
};

/** The kind of entity and the operation that a permission is for. */
const aboutOf = (permission: string): { entity_type: string; operation: Operation } => {
  const at = permission.lastIndexOf(':');
  return {
    entity_type: entityTypes[permission.slice(0, at)] ?? 'tenant',
    operation: operationOf[permission.slice(at + 1)] ?? 'use',
  };
};

export type RefusalLog = {
  /**
   * Logs that a caller was refused something. Never fails: what cannot be written is told to the process log, and the caller
   * gets its refusal.
   * @param entity_id of the entity that the request names; undefined where it names none. For what can be no id the row names the tenant.
   */
  record(caller: Actor & Pick<Caller, 'tenant_id'>, refusal: AppError, entity_id: string | undefined): Promise<void>;
  /** Logs a refusal in a row of its own making. */
  recordRow(tenant_id: string, row: LogRow): Promise<void>;
  /** Does work whose time the client must not see in its answer. Fails as `record` does: into the process log alone. */
  inBackground(work: () => Promise<void>): void;
  /** Waits for what is under way. Writes the counts that are due or, when the server stops, all of them. */
  close(): Promise<void>;
};

type Unwritten = { tenant_id: string; what: 'refusals' | 'failed sign-ins'; minute: number; count: number };

export const createRefusalLog = (ctx: Pick<Context, 'db' | 'log'> & LogClock): RefusalLog => {
  /** By tenant and kind: refusals of a minute that were not written. */
  const unwritten = new Map<string, Unwritten>();

  const minuteOf = (at: Date): number => Math.floor(at.getTime() / MINUTE_MS);

  const writeCount = async ({ tenant_id, what, count }: Unwritten): Promise<void> => {
    const row = logRow(ctx, vaultItself, {
      operation: 'use',
      entity_type: 'tenant',
      entity_ids: [tenant_id],
      message: `${count} more ${what} within a minute`,
      outcome: 'refused',
    });
    await ctx.db.for({ tenant_id }).insertLogs([row]);
  };

  /** Writes the counts of minutes that are over. */
  const writeDue = async (now: number): Promise<void> => {
    // A copy: what fails is put back, and must not be met again.
    for (const [name, counted] of Array.from(unwritten)) {
      // Another call may have written it meanwhile.
      if (counted.minute >= now || unwritten.get(name) !== counted) continue;
      unwritten.delete(name);
      // What fails for one tenant keeps nothing from another, and is counted on for the next attempt.
      await guarded(() =>
        writeCount(counted).catch((error: unknown) => {
          const meanwhile = unwritten.get(name);
          if (meanwhile) meanwhile.count += counted.count;
          else unwritten.set(name, counted);
          throw error;
        }),
      );
    }
  };

  const guarded = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      ctx.log.error({ error }, 'refusals could not be written to the log');
    }
  };

  const recordRow = (tenant_id: string, row: LogRow): Promise<void> =>
    guarded(async () => {
      const minute = minuteOf(new Date(row.created_at));
      await writeDue(minute);
      const from = firstIdAt(minute * MINUTE_MS);
      if (await ctx.db.for({ tenant_id }).insertRefusal(row, from, REFUSALS_PER_MINUTE_MAX, SIGN_IN_FAILED)) return;
      const what = row.message === SIGN_IN_FAILED ? 'failed sign-ins' : 'refusals';
      const name = `${tenant_id} ${what}`;
      const before = unwritten.get(name);
      if (before) before.count += 1;
      else unwritten.set(name, { tenant_id, what, minute, count: 1 });
    });

  const background = new Set<Promise<void>>();

  const timer = setInterval(() => void guarded(() => writeDue(minuteOf(ctx.now()))), MINUTE_MS);
  timer.unref();

  return {
    record: (caller, { permission }, entity_id) => {
      const { entity_type, operation } = permission
        ? aboutOf(permission)
        : { entity_type: 'tenant', operation: 'use' as const };
      const entity =
        entity_id === undefined || !isLoggable(entity_id)
          ? { entity_type: 'tenant', entity_ids: [caller.tenant_id] }
          : { entity_type, entity_ids: [entity_id] };
      const message = permission ? `Refused: ${permission}` : 'Refused';
      return recordRow(caller.tenant_id, logRow(ctx, caller, { operation, ...entity, message, outcome: 'refused' }));
    },
    recordRow,
    inBackground: (work) => {
      const done = guarded(work).finally(() => background.delete(done));
      background.add(done);
    },
    close: async () => {
      clearInterval(timer);
      await Promise.all(background);
      return guarded(() => writeDue(Infinity));
    },
  };
};
