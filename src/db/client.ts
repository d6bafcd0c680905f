// The database as the rules see it: `for(caller)` reaches one tenant's rows and no other's; what must be known before
// there is a caller has its own few doors, named so. Prisma for what is not hot, hot.ts for the rest.
import { PrismaPg } from '@prisma/adapter-pg';
import { Pool, type PoolConfig } from 'pg';
import { LRUCache } from 'lru-cache';
import { Prisma, PrismaClient } from '../generated/prisma/client.ts';
import { faultOf } from './faults.ts';
import { createHotStatements, type Deduplicated, type NewLog, type NewToken, type StoredToken } from './hot.ts';

/** A database that does not answer within this is away: the caller gets a 503 instead of a wait (security.md C5). */
const CONNECT_TIMEOUT_MS = 2_000;
const QUERY_TIMEOUT_MS = 10_000;
/** Prisma's statements vary in text (IN lists): names for so many are kept, per process. */
const STATEMENT_NAMES_MAX = 500;
/** Rows a sweep removes at a time, so that no sweep holds locks for long. */
const SWEEP_ROWS_MAX = 1_000;

/** Everything of one tenant that rules may touch. Every statement carries its `tenant_id`. */
export type TenantDatabase = {
  insertTokens(rows: NewToken[]): Promise<void>;
  insertDeduplicated(
    fingerprints: string[],
    now: Date,
    choose: (existing: Map<string, StoredToken>) => Deduplicated,
  ): Promise<void>;
  findToken(id: string, now: Date): Promise<StoredToken | undefined>;
  findCvc(id: string, now: Date): Promise<Buffer | undefined>;
  insertLogs(rows: NewLog[]): Promise<void>;
};

export type NewTenant = {
  tenant: { id: string; name: string };
  keys: { id: string; purpose: string; wrapped: Uint8Array; created_at: Date }[];
  application: { id: string; name: string; type: string; permissions: string[]; rules: unknown[] };
  apiKey: { public_id: string; digest: Uint8Array };
  logs: NewLog[];
};

export type NewApplication = Omit<NewTenant, 'tenant' | 'keys'>;

export type Database = ReturnType<typeof createDatabase>;

/** @param poolConfig where the database is, as pg takes it; @param options bounds, see config.ts. Connects on first use. */
export const createDatabase = (
  poolConfig: PoolConfig,
  options: {
    poolMax: number;
    writeBatches: number;
    /** A statement's name is made from its text: whoever shares a connection with us can only mean the same by it. */
    nameStatement: (sql: string) => string;
    onPoolError: (error: Error) => void;
  },
) => {
  const pool = new Pool({
    ...poolConfig,
    max: options.poolMax,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    application_name: 'strongroom',
  });
  // An idle connection that dies is the pool's to replace; without a listener it would end the process.
  pool.on('error', options.onPoolError);
  const statementNames = new LRUCache<string, string>({ max: STATEMENT_NAMES_MAX });
  const statementNameGenerator = ({ sql }: { sql: string }): string => {
    let name = statementNames.get(sql);
    if (name === undefined) statementNames.set(sql, (name = options.nameStatement(sql)));
    return name;
  };
  const prisma = new PrismaClient({ adapter: new PrismaPg(pool, { statementNameGenerator }), log: [] });
  const hot = createHotStatements(pool, options.writeBatches);

  /** Runs what Prisma does and drops its words: they hold the arguments (security.md section 3, Prisma). */
  const guarded = async <T>(work: (client: PrismaClient) => Promise<T>): Promise<T> => {
    try {
      return await work(prisma);
    } catch (error) {
      throw prismaFault(error);
    }
  };

  return {
    /** The rows of the caller's tenant. */
    for: ({ tenant_id }: { tenant_id: string }): TenantDatabase => ({
      insertTokens: (rows) => hot.insertTokens(tenant_id, rows),
      insertDeduplicated: (fingerprints, now, choose) => hot.insertDeduplicated(tenant_id, fingerprints, now, choose),
      findToken: (id, now) => hot.findToken(tenant_id, id, now),
      findCvc: (id, now) => hot.findCvc(tenant_id, id, now),
      insertLogs: (rows) => hot.insertLogs(tenant_id, rows),
    }),

    findApiKeyBeforeCaller: (publicId: string) => hot.findApiKey(publicId),

    /** The rows that hold wrapped keys, as the keyring asks for them. */
    keyStore: {
      findTenantKeys: (tenantId: string) =>
        guarded(async (client) => {
          const rows = await client.tenant_keys.findMany({ where: { tenant_id: tenantId } });
          return rows.map((row) => ({ ...row, purpose: row.purpose as 'data' | 'digest' }));
        }),
      findEphemeralKey: (id: string) =>
        guarded(async (client) => (await client.ephemeral_keys.findUnique({ where: { id } })) ?? undefined),
      addEphemeralKey: (row: { id: string; wrapped: Uint8Array; destroy_at: Date }) =>
        guarded(async (client) => {
          await client.ephemeral_keys.createMany({
            data: [{ ...row, wrapped: Uint8Array.from(row.wrapped) }],
            skipDuplicates: true,
          });
          return client.ephemeral_keys.findUniqueOrThrow({ where: { id: row.id } });
        }),
    },

    /** The instance row, or undefined in a database that is new, or not migrated yet. */
    findInstance: () =>
      guarded(async (client) => {
        const [{ there } = { there: false }] = await client.$queryRaw<{ there: boolean }[]>`
          SELECT to_regclass('instance') IS NOT NULL AS there`;
        return there ? ((await client.instance.findUnique({ where: { id: 1 } })) ?? undefined) : undefined;
      }),

    /** Marks this database as a vault of an environment; when another process was first, answers with what that one wrote. */
    addInstance: (row: { environment: string; wrapped_pepper: Uint8Array }) =>
      guarded(async (client) => {
        const wrapped_pepper = Uint8Array.from(row.wrapped_pepper);
        await client.instance.createMany({ data: [{ id: 1, ...row, wrapped_pepper }], skipDuplicates: true });
        return client.instance.findUniqueOrThrow({ where: { id: 1 } });
      }),

    hasTenants: () => guarded(async (client) => (await client.tenants.findFirst({ select: { id: true } })) !== null),

    /**
     * Adds a tenant with its keys, its first application and that one's key, in one transaction.
     * @param onlyFirst when true, adds nothing and answers false where a tenant already exists; two processes agree.
     */
    addTenant: (row: NewTenant, onlyFirst: boolean): Promise<boolean> =>
      guarded((client) =>
        client.$transaction(async (tx) => {
          // The instance row is the one lock that every process shares.
          await tx.$queryRaw`SELECT id FROM instance WHERE id = 1 FOR UPDATE`;
          if (onlyFirst && (await tx.tenants.findFirst({ select: { id: true } }))) return false;
          const tenant_id = row.tenant.id;
          await tx.tenants.create({ data: row.tenant });
          await tx.tenant_keys.createMany({
            data: row.keys.map((key) => ({ ...key, tenant_id, wrapped: Uint8Array.from(key.wrapped) })),
          });
          await insertApplication(tx, tenant_id, row);
          return true;
        }),
      ),

    /** Adds an application with a key to a tenant. */
    addApplication: (tenant_id: string, row: NewApplication): Promise<void> =>
      guarded((client) => client.$transaction((tx) => insertApplication(tx, tenant_id, row))),

    findTenants: (id?: string) =>
      guarded((client) =>
        client.tenants.findMany({
          where: id === undefined ? {} : { id },
          orderBy: [{ created_at: 'asc' }, { id: 'asc' }],
          take: SWEEP_ROWS_MAX,
        }),
      ),

    /**
     * Removes what has outlived its time, in every tenant: CVCs, the keys they were sealed under, expired tokens (with
     * the log row of each). @returns rows removed; call again while `tokens` comes back full.
     */
    sweep: async (now: Date, newLogId: () => string): Promise<{ cvcs: number; keys: number; tokens: number }> => {
      try {
        const cvcs = await pool.query('DELETE FROM token_cvcs WHERE expires_at <= $1', [now]);
        const keys = await pool.query('DELETE FROM ephemeral_keys WHERE destroy_at <= $1', [now]);
        // A deleted row's bytes stay in its page until vacuum takes them; this table is tiny and must forget.
        if (keys.rowCount) await pool.query('VACUUM ephemeral_keys');
        const expired = await pool.query<{ tenant_id: string; id: string }>(FIND_EXPIRED, [now, SWEEP_ROWS_MAX]);
        const rows = expired.rows.map((row) => ({ ...row, log_id: newLogId() }));
        const tokens = await pool.query(SWEEP_TOKENS, [now, JSON.stringify(rows)]);
        return { cvcs: cvcs.rowCount ?? 0, keys: keys.rowCount ?? 0, tokens: tokens.rowCount ?? 0 };
      } catch (error) {
        throw faultOf(error);
      }
    },

    /** One round trip. @throws unavailable. */
    ping: async (): Promise<void> => {
      await pool.query('SELECT 1').catch((error: unknown) => {
        throw faultOf(error);
      });
    },

    /** Waits for writes under way, then lets every connection go. */
    close: async (): Promise<void> => {
      await hot.drain();
      await prisma.$disconnect();
      await pool.end();
    },
  };
};

const insertApplication = async (
  tx: Prisma.TransactionClient,
  tenant_id: string,
  { application, apiKey, logs }: NewApplication,
): Promise<void> => {
  const rules = application.rules as Prisma.InputJsonValue;
  await tx.applications.create({ data: { ...application, tenant_id, rules } });
  const { public_id, digest } = apiKey;
  await tx.api_keys.create({
    data: { public_id, tenant_id, application_id: application.id, digest: Uint8Array.from(digest) },
  });
  await tx.audit_log.createMany({ data: logs.map((log) => ({ ...log, tenant_id })) });
};

const FIND_EXPIRED = 'SELECT tenant_id, id FROM tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2';

/** Deletes what another process has not deleted meanwhile, each with its log row. */
const SWEEP_TOKENS = `
WITH expired AS (
  SELECT * FROM json_to_recordset($2::json) AS r(tenant_id uuid, id text, log_id uuid)
), gone AS (
  DELETE FROM tokens t USING expired e WHERE t.tenant_id = e.tenant_id AND t.id = e.id AND t.expires_at <= $1
  RETURNING t.tenant_id, t.id, t.type, e.log_id
), cvcs AS (
  DELETE FROM token_cvcs c USING gone g WHERE c.tenant_id = g.tenant_id AND c.id = g.id
)
INSERT INTO audit_log (tenant_id, id, actor_type, entity_type, entity_id, operation, message, created_at)
SELECT tenant_id, log_id, 'system', type, id, 'delete', 'Token expired', $1 FROM gone`;

/** P2002 is Prisma's unique violation; its known request errors carry codes, everything else means that it did not reach the database. */
const prismaFault = (error: unknown) => {
  if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2002')
    return faultOf(Object.assign(new Error('duplicate'), { code: '23505', cause: error }));
  // P1 is Prisma's class for a database that cannot be reached or entered, P2024 a pool without a free connection.
  if (error instanceof Prisma.PrismaClientKnownRequestError && /^P1|^P2024$/.test(error.code))
    return faultOf(Object.assign(new Error('away'), { code: 'ECONNREFUSED', cause: error }));
  if (error instanceof Prisma.PrismaClientValidationError)
    return faultOf(Object.assign(new Error('a query of ours is not valid'), { code: 'query' }));
  return faultOf(error);
};
