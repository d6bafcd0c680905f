// Writes refused requests to the audit log, with a limit for each tenant and minute, and a count of those beyond it.
import { MINUTE_MS } from '../../platform/base/times.ts';
import type { Work } from './work.ts';
import type { Caller } from './caller.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { firstIdAt } from '../../platform/crypto/ids.ts';
import { randomIntBelow } from '../../platform/crypto/random.ts';
import type { AppError } from '../../platform/base/errors.ts';
import { isStorableText } from '../../platform/json/json.ts';
import { TOKEN_ID_LENGTH_MAX } from './token-id.ts';
import {
  type Actor,
  logRow,
  type LogClock,
  type LogRow,
  type Operation,
  SIGN_IN_FAILED,
  vaultItself,
} from '../../platform/db/audit-record.ts';

/**
 * Refusals of a tenant that all processes together write in a minute, so that a client in a loop does not fill the log. Those
 * beyond are counted in one more row. Failed sign-ins need no key and are counted apart: neither kind hides the other.
 */
export const REFUSALS_PER_MINUTE_MAX = 60;

/** When work in the background begins. The response has been sent by then: its handler has nothing left to wait for. */
const BACKGROUND_MS_MIN = 50;
const BACKGROUND_MS_MAX = 1_000;

/** A path may name anything. The database would refuse a row with text that no id can be. */
const isLoggable = (id: string): boolean => id.length <= TOKEN_ID_LENGTH_MAX && isStorableText(id);

/** The kind of entity that a permission is for. */
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
  webhook: 'webhook',
  forward: 'forward',
};

const operationOf: Record<string, Operation> = {
  create: 'create',
  read: 'read',
  search: 'read',
  update: 'update',
  delete: 'delete',
  use: 'use',
};

const aboutOf = (permission: string): { entity_type: string; operation: Operation } => {
  const at = permission.lastIndexOf(':');
  return {
    entity_type: entityTypes[permission.slice(0, at)] ?? 'tenant',
    operation: operationOf[permission.slice(at + 1)] ?? 'use',
  };
};

export type RefusalLog = {
  /**
   * Logs a refusal. Never fails: where the row cannot be written, the process log has the error.
   * @param entity_id of the entity that the request names; undefined for none. Where it cannot be an id, the row names the tenant.
   */
  record(caller: Actor & Pick<Caller, 'tenant_id'>, refusal: AppError, entity_id: string | undefined): Promise<void>;
  /** Logs a refusal with a given row. */
  recordRow(tenant_id: string, row: LogRow): Promise<void>;
  /**
   * Does work of which the client must see nothing: neither its own response nor the next ones tell whether there is any. It begins
   * after the response, at a random time of the next second. An error goes to the process log.
   */
  inBackground(work: () => Promise<void>): void;
  /** Begins the work in the background that waits, and waits for all of it. */
  finishBackground(): Promise<void>;
  /** Finishes the work in the background, and writes all counts. */
  close(): Promise<void>;
};

type Unwritten = { tenant_id: string; what: 'refusals' | 'failed sign-ins'; minute: number; count: number };

export const createRefusalLog = (ctx: Pick<Platform, 'db' | 'log' | 'randomBytes'> & LogClock): RefusalLog => {
  /** Refusals of a minute that were not written, by tenant and kind. */
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

  /** Writes the counts of past minutes. */
  const writeDue = async (now: number): Promise<void> => {
    // A copy, since a count that cannot be written is put back.
    for (const [name, counted] of Array.from(unwritten)) {
      // Another call may have written it.
      if (counted.minute >= now || unwritten.get(name) !== counted) continue;
      unwritten.delete(name);
      // A failure for one tenant does not keep the others from being written; its count goes on.
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
      const db = ctx.db.for({ tenant_id });
      if (await db.insertRefusal(row, from, REFUSALS_PER_MINUTE_MAX, SIGN_IN_FAILED)) return;
      const what = row.message === SIGN_IN_FAILED ? 'failed sign-ins' : 'refusals';
      const name = `${tenant_id} ${what}`;
      const before = unwritten.get(name);
      if (before) before.count += 1;
      else unwritten.set(name, { tenant_id, what, minute, count: 1 });
    });

  const background = new Set<Promise<void>>();
  /** Work whose time has not come, and its start. */
  const waiting = new Map<NodeJS.Timeout, () => void>();

  const finishBackground = async (): Promise<void> => {
    for (const [later, start] of Array.from(waiting)) {
      clearTimeout(later);
      start();
    }
    await Promise.all(background);
  };

  const timer = setInterval(() => void guarded(() => writeDue(minuteOf(ctx.now()))), MINUTE_MS);
  timer.unref();

  return {
    record: (caller, { permission, refused }, entity_id) => {
      if (refused) return recordRow(caller.tenant_id, logRow(ctx, caller, { ...refused, outcome: 'refused' }));
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
      const start = (): void => {
        waiting.delete(later);
        const done = guarded(work).finally(() => background.delete(done));
        background.add(done);
      };
      const later = setTimeout(
        start,
        BACKGROUND_MS_MIN + randomIntBelow(BACKGROUND_MS_MAX - BACKGROUND_MS_MIN, ctx.randomBytes),
      );
      later.unref();
      waiting.set(later, start);
    },
    finishBackground,
    close: async () => {
      clearInterval(timer);
      await finishBackground();
      return guarded(() => writeDue(Infinity));
    },
  };
};

/** Logs that a request lacked a permission. The entity is the one that the path names, if any. */
export const logRefusal = async (
  { refusals }: { refusals: RefusalLog },
  request: { work: Work | undefined; params: unknown },
  error: AppError,
): Promise<void> => {
  if (error.code !== 'forbidden' || !request.work) return;
  const { id, parent_id } = (request.params ?? {}) as { id?: string; parent_id?: string };
  await refusals.record(request.work, error, id ?? parent_id);
};
