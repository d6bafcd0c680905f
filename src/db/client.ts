// The database as the rules see it: `for(caller)` reaches one tenant's rows and no other's; what must be known before
// there is a caller has its own few doors, named so. Prisma for what is not hot, raw statements for the rest.
import { LRUCache } from 'lru-cache';
import { Pool, type PoolConfig } from 'pg';
import { applicationStatements } from './applications.ts';
import { attemptStatements } from './attempts.ts';
import { formulaStatements, officialFormulaStatements } from './formulas.ts';
import { createHotStatements, type PlannedChange, type StoredToken } from './hot.ts';
import { createIdempotencyStatements } from './idempotency.ts';
import { invitationStatements } from './invitations.ts';
import { keyStatements } from './keys.ts';
import { countLogs, listLogs, type LogFilter, type LogPageStart } from './log-list.ts';
import { mailStatements } from './mail-outbox.ts';
import { maskStatements } from './masks.ts';
import { memberStatements } from './members.ts';
import { passwordStatements } from './passwords.ts';
import { acceptanceStatements } from './people.ts';
import { createPrisma } from './prisma.ts';
import { findProxyBeforeCaller, proxyStatements } from './proxies.ts';
import { reactorStatements } from './reactors.ts';
import { findServerRole } from './server-role.ts';
import { sessionStatements } from './sessions.ts';
import { createStatements } from './statements.ts';
import { sweepOnce } from './sweep.ts';
import { operatorStatements, tenantStatements } from './tenants.ts';
import { createTimedClient } from './timed-client.ts';
import { countTokensByType, findTokenPage, listTokens, type TokenListRequest } from './token-list.ts';

/** A database that does not answer within this is away: the caller gets a 503 instead of a wait (security.md C5). */
const CONNECT_TIMEOUT_MS = 2_000;
const QUERY_TIMEOUT_MS = 10_000;
/** PostgreSQL ends a query itself before this. Where no end comes, the connection is cut. */
const SILENCE_MS = QUERY_TIMEOUT_MS + 1_000;

/** Everything of one tenant that rules may touch. Every statement carries its `tenant_id`. */
export type TenantDatabase = ReturnType<Database['for']>;

export type Database = ReturnType<typeof createDatabase>;

/** Tenants whose bound statements are kept, per process: a bound, not a tuning. */
const TENANTS_BOUND_MAX = 1_000;

type Statement = (tenantId: string, ...rest: never[]) => unknown;

/** The arguments of a statement without its first, the tenant's id. */
type AfterTenant<T> = T extends (tenantId: string, ...rest: infer Rest) => infer Result
  ? (...rest: Rest) => Result
  : never;

/** Each statement with the tenant put in front: none can be called without. */
const bind = <T extends Record<string, Statement>>(statements: T, tenantId: string) =>
  Object.fromEntries(
    Object.entries(statements).map(([name, statement]) => [name, statement.bind(undefined, tenantId)]),
  ) as unknown as { [Name in keyof T]: AfterTenant<T[Name]> };

/** @param poolConfig where the database is, as pg takes it; @param options bounds, see config.ts. Connects on first use. */
export const createDatabase = (
  poolConfig: PoolConfig,
  options: {
    poolMax: number;
    writeBatches: number;
    nameStatement: (sql: string) => string;
    onPoolError: (error: Error) => void;
  },
) => {
  const pool = new Pool({
    ...poolConfig,
    max: options.poolMax,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    Client: createTimedClient(SILENCE_MS),
    // What nobody waits for any more must not go on in the database either.
    statement_timeout: QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: QUERY_TIMEOUT_MS,
    application_name: 'strongroom',
    // Every statement is written for an index. Where PostgreSQL misjudges how many rows a condition finds, it reads a whole
    // table in the hope of finding enough of them soon: 2.5 s at ten million tokens where the index takes 17 ms. Awaited
    // before the first query of the connection: pg warns of a query that is sent while another is under way.
    onConnect: async (client) => {
      await client.query('SET enable_seqscan = off');
    },
  });
  // An idle connection that dies is the pool's to replace; without a listener it would end the process.
  pool.on('error', options.onPoolError);
  const { guarded, close: closePrisma } = createPrisma(pool, options.nameStatement);
  const statements = createStatements(pool, options.poolMax);
  const { query } = statements;
  const { drain, findApiKey, ...hot } = createHotStatements(statements, options.writeBatches);
  const idempotency = createIdempotencyStatements(statements);

  const { changeToken, ...statementsOfTokens } = hot;

  const bindTenant = (tenant_id: string) => ({
    ...bind(statementsOfTokens, tenant_id),
    ...bind(idempotency, tenant_id),
    ...applicationStatements(guarded, tenant_id),
    ...tenantStatements(guarded, tenant_id),
    ...formulaStatements(statements, tenant_id),
    ...reactorStatements(statements, tenant_id),
    ...proxyStatements(statements, tenant_id),
    ...invitationStatements(statements, tenant_id),
    ...memberStatements(statements, tenant_id),
    changeToken: <T>(id: string, now: Date, plan: (row: StoredToken) => PlannedChange<T>) =>
      changeToken<T>(tenant_id, id, now, plan),
    listTokens: (request: TokenListRequest) => listTokens(query, tenant_id, request),
    findTokenPage: (request: TokenListRequest & { start: { offset: number } }) =>
      findTokenPage(query, tenant_id, request),
    countTokensByType: () => countTokensByType(query, tenant_id),
    listLogs: (filter: LogFilter, start: LogPageStart, limit: number, isFrequent?: boolean) =>
      listLogs(query, tenant_id, filter, start, limit, isFrequent),
    countLogs: (filter: LogFilter) => countLogs(query, tenant_id, filter),
  });
  const bound = new LRUCache<string, ReturnType<typeof bindTenant>>({ max: TENANTS_BOUND_MAX });

  return {
    /** The rows of the caller's tenant. */
    for: ({ tenant_id }: { tenant_id: string }) => {
      let tenant = bound.get(tenant_id);
      if (!tenant) bound.set(tenant_id, (tenant = bindTenant(tenant_id)));
      return tenant;
    },

    findApiKeyBeforeCaller: (publicId: string) => findApiKey(publicId),
    findProxyBeforeCaller: (digest: Uint8Array) => findProxyBeforeCaller(query, digest),
    ...acceptanceStatements(statements),
    ...keyStatements(guarded, query, options.writeBatches),
    ...operatorStatements(guarded),
    ...officialFormulaStatements(statements),
    ...sessionStatements(statements),
    ...passwordStatements(statements),
    ...attemptStatements(statements),
    ...mailStatements(statements),
    ...maskStatements(statements),

    /** Removes a bite of what has outlived its time. @returns whether something was left. @throws unavailable. */
    sweep: (now: Date, newLogId: (at: Date) => string): Promise<boolean> => sweepOnce(pool, statements, now, newLogId),

    /** What the role of this process may do. @throws unavailable. */
    findServerRole: () => findServerRole(query),

    /** One round trip. @throws unavailable. */
    ping: async (): Promise<void> => {
      await query(undefined, 'SELECT 1', []);
    },

    /** Waits for writes under way, then lets every connection go. */
    close: async (): Promise<void> => {
      await drain();
      await closePrisma();
      await pool.end();
    },
  };
};
