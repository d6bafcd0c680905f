// Applications: who calls the vault, what each may, and the key it calls with. A key is shown when it is made and never
// again; nobody gives an application more than they hold (grants.ts).
import { logRow, type Operation } from '../audit/record.ts';
import type { Context } from '../context.ts';
import type { ApplicationFilter, StoredApplication } from '../db/applications.ts';
import { notFound } from '../errors.ts';
import { countThenList, type Page, type PageRequest, readPage } from '../paging.ts';
import { newApiKey } from './api-keys.ts';
import { hostsOf } from './allowed-hosts.ts';
import type { Caller } from './caller.ts';
import { checkGrants } from './grants.ts';
import { type ApplicationType, isPermission, type Permission } from './permissions.ts';
import { type AccessRule, accessRuleSchema } from './rules.ts';

/** As the wire knows it. What is absent or undefined is left out. */
export type ApplicationRecord = {
  id: string;
  tenant_id: string;
  name: string;
  type: string;
  permissions: Permission[];
  rules: ShownRule[];
  allowed_hosts: string[] | undefined;
  /** Only in the answer that made it. */
  key?: string;
  created_by: string | undefined;
  created_at: string;
  modified_by: string | undefined;
  modified_at: string | undefined;
};

type ShownRule = Omit<AccessRule, 'description'> & { description?: string };

export type ApplicationInput = {
  name: string;
  permissions: Permission[];
  rules: AccessRule[];
  /** Undefined: it may send to any. */
  allowed_hosts?: string[] | undefined;
};

/** What the log says of it: a change of the application, and one to be found. */
const KEY_REGENERATED = 'Application key regenerated';

/** What an application may, by its row. */
export const grantsOf = (
  row: Pick<StoredApplication, 'permissions' | 'rules' | 'allowed_hosts'>,
): Omit<ApplicationInput, 'name'> => ({
  permissions: row.permissions.filter(isPermission),
  rules: accessRuleSchema.array().parse(row.rules),
  allowed_hosts: hostsOf(row.allowed_hosts),
});

const shownRule = ({ description, ...rule }: AccessRule): ShownRule =>
  description === '' ? rule : { description, ...rule };

const recordOf = (tenant_id: string, row: StoredApplication): ApplicationRecord => {
  const { permissions, rules, allowed_hosts } = grantsOf(row);
  return {
    id: row.id,
    tenant_id,
    name: row.name,
    type: row.type,
    permissions,
    rules: rules.map(shownRule),
    allowed_hosts,
    created_by: row.created_by ?? undefined,
    created_at: row.created_at.toISOString(),
    modified_by: row.modified_by ?? undefined,
    modified_at: row.modified_at?.toISOString(),
  };
};

const logOf = (ctx: Context, caller: Caller, operation: Operation, entity_ids: string[]) =>
  logRow(ctx, caller, { operation, entity_type: 'application', entity_ids });

/** Each permission once, however often it was named. */
const uniqueOf = ({ name, permissions, rules, allowed_hosts }: ApplicationInput): ApplicationInput => ({
  name,
  permissions: [...new Set(permissions)],
  rules: rules.map((rule) => ({ ...rule, permissions: [...new Set(rule.permissions)] })),
  allowed_hosts,
});

/** An empty list narrows nothing: what is not narrowed has none. */
const columnsOf = ({ allowed_hosts }: ApplicationInput) => ({ allowed_hosts: allowed_hosts ?? [] });

/** Makes an application with its key. @returns the application with `key`. @throws forbidden for what the caller does not hold. */
export const createApplication = async (
  ctx: Context,
  caller: Caller,
  input: ApplicationInput & { type: ApplicationType },
): Promise<ApplicationRecord> => {
  const fields = uniqueOf(input);
  checkGrants(caller, fields);
  const apiKey = newApiKey(ctx);
  const made = { created_at: ctx.now(), created_by: caller.actor_id };
  const application = { id: ctx.newUuid(), type: input.type, ...fields, ...columnsOf(fields), ...made };
  const row = { ...application, modified_at: null, modified_by: null };
  const result = { ...recordOf(caller.tenant_id, row), key: apiKey.key.reveal() };
  await ctx.db.for(caller).addApplication({
    application,
    apiKey,
    logs: [logOf(ctx, caller, 'create', [application.id])],
    answer: caller.keep?.(result),
  });
  return result;
};

/** Reads one. @throws notFound for an unknown and a foreign id, both alike. */
export const getApplication = async (ctx: Context, caller: Caller, id: string): Promise<ApplicationRecord> => {
  const row = await ctx.db.for(caller).findApplication(id);
  if (!row) throw notFound('application');
  await ctx.db.for(caller).insertLogs([logOf(ctx, caller, 'read', [id])]);
  return recordOf(caller.tenant_id, row);
};

/** The application that calls. @throws notFound for a caller that is none. */
export const getOwnApplication = async (ctx: Context, caller: Caller): Promise<ApplicationRecord> => {
  if (caller.actor_type !== 'application') throw notFound('application');
  return getApplication(ctx, caller, caller.actor_id);
};

/** A page, newest first. @param input.ids only these; undefined for all. */
export const listApplications = async (
  ctx: Context,
  caller: Caller,
  input: ApplicationFilter & { page: PageRequest },
): Promise<Page<ApplicationRecord>> => {
  const db = ctx.db.for(caller);
  const { pagination, rows } = await readPage(input.page, {
    page: countThenList(
      async () => ({ total: await db.countApplications(input), capped: false }),
      (offset, limit) => db.listApplications(input, offset, limit),
    ),
  });
  const shown = rows.map(({ id }) => id);
  if (shown.length > 0) await db.insertLogs([logOf(ctx, caller, 'read', shown)]);
  return { pagination, data: rows.map((row) => recordOf(caller.tenant_id, row)) };
};

/**
 * Changes name, permissions, rules and hosts, all of them; `type` and the key stay. What the application has already may stay,
 * whoever asks.
 * @throws notFound; forbidden for what neither the caller nor the application holds.
 */
export const changeApplication = async (
  ctx: Context,
  caller: Caller,
  id: string,
  input: ApplicationInput,
): Promise<ApplicationRecord> => {
  const given = uniqueOf(input);
  const fields = { ...given, ...columnsOf(given), ...modificationOf(ctx, caller) };
  const changed = await forgetting(ctx, id, () =>
    ctx.db.for(caller).changeApplication(id, (row) => {
      checkGrants(caller, given, grantsOf(row));
      const result = recordOf(caller.tenant_id, { ...row, ...fields });
      return { fields, log: logOf(ctx, caller, 'update', [id]), answer: caller.keep?.(result), result };
    }),
  );
  if (!changed) throw notFound('application');
  return changed;
};

/**
 * Ends the application's key and gives it another, which hands out all that the application may.
 * @returns the application with `key`. @throws notFound; forbidden for what the caller does not hold.
 */
export const regenerateKey = async (ctx: Context, caller: Caller, id: string): Promise<ApplicationRecord> => {
  const apiKey = newApiKey(ctx);
  const fields = modificationOf(ctx, caller);
  const changed = await forgetting(ctx, id, () =>
    ctx.db.for(caller).changeApplication(id, (row) => {
      checkGrants(caller, grantsOf(row));
      const result = { ...recordOf(caller.tenant_id, { ...row, ...fields }), key: apiKey.key.reveal() };
      const log = { ...logOf(ctx, caller, 'update', [id]), message: KEY_REGENERATED };
      return { fields, apiKey, log, answer: caller.keep?.(result), result };
    }),
  );
  if (!changed) throw notFound('application');
  return changed;
};

/** Ends an application with its key. @throws notFound. */
export const deleteApplication = async (ctx: Context, caller: Caller, id: string): Promise<void> => {
  const log = logOf(ctx, caller, 'delete', [id]);
  const gone = await forgetting(ctx, id, () => ctx.db.for(caller).deleteApplication(id, log));
  if (!gone) throw notFound('application');
};

const modificationOf = (ctx: Context, caller: Caller) => ({ modified_at: ctx.now(), modified_by: caller.actor_id });

/**
 * Does a deed and forgets the application's callers in this process before anybody hears of it; others hear it from the
 * database. Whatever came of it: a deed that failed on its way back may have been done.
 */
const forgetting = async <T>(ctx: Context, id: string, deed: () => Promise<T>): Promise<T> => {
  try {
    return await deed();
  } finally {
    ctx.callers.forget({ actor_id: id });
    ctx.reactors.forget({ application_id: id });
    ctx.proxies.forget({ application_id: id });
  }
};
