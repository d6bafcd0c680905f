// Rows of proxies, and of the keys they are found by before a caller is known. Knows sealed routes and digests only; what may
// be written is decided above, over rows that nobody else changes meanwhile.
import { lockApplicationForUse, type StoredApplication } from './applications.ts';
import { finish, writeLog } from './finish.ts';
import { runnableNotice } from './formulas.ts';
import type { NewLog } from './hot.ts';
import type { KeptAnswer } from './idempotency.ts';
import { countNamed, type NamedFilter, namedRows, searchNameOf } from './names.ts';
import { NOTIFY } from './notices.ts';
import type { Query, Statements } from './statements.ts';
import { boundSealed } from './token-sql.ts';

export type StoredProxy = {
  id: string;
  name: string;
  require_auth: boolean;
  /** Null where it does not narrow. */
  allowed_hosts: string[] | null;
  /** Null where the rows of a request hold more than SEALED_BYTES_MAX together. */
  sealed: Buffer;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
  /** Null where it has none, and where that one is gone. */
  application_id: string | null;
};

/** A proxy with all that its use takes. */
export type UsableRow = Pick<StoredProxy, 'id' | 'require_auth' | 'allowed_hosts' | 'sealed' | 'application_id'> & {
  tenant_id: string;
  version: number;
};

/** What is written of a proxy, decided over its application as it is. */
export type PlannedProxy<T> = {
  fields: {
    name: string;
    require_auth: boolean;
    allowed_hosts: string[] | null;
    sealed: Uint8Array;
    application_id: string | null;
    at: Date;
    by: string;
  };
  log: NewLog;
  answer: KeptAnswer | undefined;
  result: T;
};

const COLUMNS = `id, name, require_auth, allowed_hosts, sealed, created_at, created_by, modified_at, modified_by,
  application_id`;

const FROM = 'FROM proxies r LEFT JOIN applications a ON a.tenant_id = r.tenant_id AND a.id = r.application_id';

const SELECT = `SELECT r.id, r.name, r.require_auth, r.allowed_hosts, r.sealed, r.created_at, r.created_by, r.modified_at,
  r.modified_by, a.id AS application_id ${FROM}`;

const FIND = `${SELECT} WHERE r.tenant_id = $1 AND r.id = $2`;

const LOCK = 'SELECT id FROM proxies WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

/** A tenant that is deleted has no proxies any more, whatever the sweep has left of them. */
const FIND_BY_DIGEST = `
SELECT r.tenant_id, r.id, r.version, r.require_auth, r.allowed_hosts, r.sealed, a.id AS application_id
${FROM}
JOIN proxy_keys k ON k.tenant_id = r.tenant_id AND k.proxy_id = r.id
JOIN tenants t ON t.id = r.tenant_id
WHERE k.digest = $1`;

const INSERT = `
INSERT INTO proxies (tenant_id, id, name, search_name, require_auth, allowed_hosts, sealed, application_id, created_at,
  created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`;

const INSERT_KEY = 'INSERT INTO proxy_keys (digest, tenant_id, proxy_id) VALUES ($1, $2, $3)';

const UPDATE = `
UPDATE proxies SET name = $3, search_name = $4, require_auth = $5, allowed_hosts = $6, sealed = $7, application_id = $8,
  modified_at = $9, modified_by = $10, version = version + 1
WHERE tenant_id = $1 AND id = $2`;

const DELETE = 'DELETE FROM proxies WHERE tenant_id = $1 AND id = $2 RETURNING id';

const DELETE_KEY = 'DELETE FROM proxy_keys WHERE tenant_id = $1 AND proxy_id = $2';

const fieldsOf = ({ fields }: PlannedProxy<unknown>): unknown[] => [
  fields.name,
  searchNameOf(fields.name),
  fields.require_auth,
  fields.allowed_hosts,
  fields.sealed,
  fields.application_id,
  fields.at,
  fields.by,
];

/** The proxy of a key, of whatever tenant. */
export const findProxyBeforeCaller = async (query: Query, digest: Uint8Array): Promise<UsableRow | undefined> =>
  ((await query('find-proxy-by-digest', FIND_BY_DIGEST, [digest])) as UsableRow[])[0];

export const proxyStatements = ({ query, transaction }: Statements, tenant_id: string) => ({
  /**
   * Makes a proxy with its key.
   * @param plan decides over the application, which nobody else changes or removes meanwhile; undefined where there is
   * none. What it throws leaves everything as it was.
   */
  addProxy: <T>(
    made: { id: string; digest: Uint8Array; application_id: string | undefined },
    plan: (application: StoredApplication | undefined) => PlannedProxy<T>,
  ): Promise<T> =>
    transaction(async (on) => {
      const planned = plan(await lockApplicationForUse(on, tenant_id, made.application_id));
      await on('insert-proxy', INSERT, [tenant_id, made.id, ...fieldsOf(planned)]);
      await on('insert-proxy-key', INSERT_KEY, [made.digest, tenant_id, made.id]);
      return finish(on, tenant_id, planned);
    }),

  findProxy: async (id: string): Promise<StoredProxy | undefined> =>
    ((await query('find-proxy', FIND, [tenant_id, id])) as StoredProxy[])[0],

  countProxies: (filter: NamedFilter) => countNamed(query, 'proxies', tenant_id, filter),

  /** Newest first, then by id. */
  listProxies: async (filter: NamedFilter, offset: number, limit: number): Promise<StoredProxy[]> => {
    const { where, values, add } = namedRows('r', tenant_id, filter);
    const page = `${SELECT} WHERE ${where} ORDER BY r.created_at DESC, r.id LIMIT ${add(limit)} OFFSET ${add(offset)}`;
    const text = `${boundSealed(COLUMNS, page)} ORDER BY created_at DESC, id`;
    return (await query(undefined, text, values)) as StoredProxy[];
  },

  /**
   * Changes a proxy; its key stays.
   * @param plan as for addProxy, and over the proxy as it is, with the application that it has so far.
   * @returns its result; undefined where there is no such proxy.
   */
  changeProxy: <T>(
    id: string,
    application_id: string | undefined,
    plan: (
      row: StoredProxy,
      applications: { before: StoredApplication | undefined; after: StoredApplication | undefined },
    ) => PlannedProxy<T>,
  ): Promise<T | undefined> =>
    transaction(async (on) => {
      // Found once it is locked: whoever held it may have given it another application, and a join keeps what it saw before.
      await on('lock-proxy', LOCK, [tenant_id, id]);
      const [row] = (await on('find-proxy', FIND, [tenant_id, id])) as StoredProxy[];
      if (!row) return undefined;
      const before = await lockApplicationForUse(on, tenant_id, row.application_id);
      const after = await lockApplicationForUse(on, tenant_id, application_id);
      const planned = plan(row, { before, after });
      await on('update-proxy', UPDATE, [tenant_id, id, ...fieldsOf(planned)]);
      await on('notify', NOTIFY, [runnableNotice(tenant_id)]);
      return finish(on, tenant_id, planned);
    }),

  /** Removes a proxy with its key. @returns whether it was there. */
  deleteProxy: (id: string, log: NewLog): Promise<boolean> =>
    transaction(async (on) => {
      if ((await on('delete-proxy', DELETE, [tenant_id, id])).length === 0) return false;
      await on('delete-proxy-key', DELETE_KEY, [tenant_id, id]);
      await writeLog(on, tenant_id, log);
      await on('notify', NOTIFY, [runnableNotice(tenant_id)]);
      return true;
    }),
});
