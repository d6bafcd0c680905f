// Erasure lists through the command line: what was deleted does not come back with a restore.
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { sweep } from '../../src/modules/tokens/sweep.ts';
import { LOG_LINE } from '../../src/platform/db/log-partitions.ts';
import { expectNothing, shareBackups, tokenize, withEmpty } from '../support/backups.ts';
import { createEmptyDatabase, isDistributed } from '../support/database.ts';
import { startServer, type TestServer } from '../support/server.ts';

const here = shareBackups();

/** The rows that say so in the log of a deleted tenant. */
const deletionsOf = async (server: TestServer, tenant_id: string) => {
  const rows = await server.sql(
    `SELECT actor_type, ${LOG_LINE} FROM audit_log AS l
    WHERE tenant_id = $1 AND entity_type = 'tenant' AND operation = 'delete' ORDER BY id`,
    [tenant_id],
  );
  return rows.map(({ actor_type, line }) => ({ actor_type, isIntact: server.ctx.db.logMacs.isIntact(line) }));
};

describe('erasures', () => {
  test('are replayed: what was deleted after the backup does not come back', async () => {
    const source = await startServer();
    const { tenant } = source;
    const again = crypto.randomUUID();
    await tokenize(source, 'VALUE-first', { id: again });
    expect((await source.request('DELETE', `/tokens/${again}`)).status).toBe(204);
    await tokenize(source, 'VALUE-second', { id: again });
    const kept = await tokenize(source, 'kept');
    const erased = await tokenize(source, 'VALUE-erased');
    const expired = await tokenize(source, 'expired');
    const other = await source.newTenant();
    const ofOther = await source.tokenize({ type: 'token', data: 'VALUE-gone' }, other.api_key);
    const application = await source.newKey(tenant, { permissions: ['token:create'] });
    const revoked = await source.newKey(tenant, { permissions: ['token:create'] });
    const living = await source.newKey(tenant, { permissions: ['token:create'] });
    const proxy = await source.request('POST', '/proxies', {
      json: { name: 'Shop', destination_url: 'https://api.example.com' },
    });
    const backup = await here.backups.backUp(source.databaseUrl, 'erasures.age');

    expect((await source.request('DELETE', `/tokens/${erased}`)).status).toBe(204);
    const soon = new Date(Date.now() + 60_000).toISOString();
    const patched = await source.request('PATCH', `/tokens/${expired}`, {
      json: { expires_at: soon },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    expect(patched.status).toBe(200);
    source.clock.offsetMs = 120_000;
    await sweep(source.ctx);
    source.clock.offsetMs = 0;
    expect((await source.request('DELETE', `/applications/${application.application_id}`)).status).toBe(204);
    const publicPart = revoked.api_key.slice(0, revoked.api_key.lastIndexOf('_'));
    const revoke = ['keys', 'revoke', publicPart, '--tenant', tenant.tenant_id];
    expect((await here.backups.cli(source.databaseUrl, revoke)).code).toBe(0);
    expect((await source.request('DELETE', `/proxies/${proxy.body.id}`)).status).toBe(204);
    expect((await source.request('DELETE', '/tenants/self', { key: other.api_key })).status).toBe(204);
    const list = here.backups.fileNamed('erasures');
    const exported = await here.backups.cli(source.databaseUrl, ['erasures', 'export', list]);
    expect([exported.code, exported.stdout]).toEqual([0, expect.stringMatching(/erasures {5}8$/m)]);
    expect((await here.backups.cli(source.databaseUrl, ['erasures', 'export', list])).stderr).toContain('exists');
    expect(readFileSync(list).includes('VALUE')).toBe(false);
    await source.close();

    const database = await createEmptyDatabase();
    const { code, stdout, stderr } = await here.backups.restore(database.url, backup, '--erasures', list);
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    expect(stdout).toContain(
      '(8 entries). Deleted again: 1 tenant, 1 application, 1 api_key, 1 proxy, 0 webhook, 0 member, 0 invitation, 2 token.',
    );
    const target = await startServer({}, {}, { database });
    try {
      const read = async (id: string, key = tenant.api_key) =>
        (await target.request('GET', `/tokens/${id}`, { key })).status;
      expect(await Promise.all([kept, again, erased, expired].map((id) => read(id)))).toEqual([200, 200, 404, 404]);
      expect(await read(ofOther.body.id, other.api_key)).toBe(401);
      const create = async ({ api_key }: { api_key: string }) =>
        (await target.tokenize({ type: 'token', data: 'x' }, api_key)).status;
      expect(await Promise.all([living, revoked, application].map(create))).toEqual([200, 401, 401]);
      expect(await target.sql('SELECT FROM proxies')).toEqual([]);
      expect(await target.sql('SELECT FROM proxy_keys')).toEqual([]);
      expect(await deletionsOf(target, other.tenant_id)).toEqual([{ actor_type: 'operator', isIntact: true }]);
      // One transaction: a crash leaves neither without the other.
      if (!isDistributed) {
        const written = `SELECT xmin::text FROM audit_log WHERE tenant_id = $1 AND entity_type = 'tenant'
          UNION SELECT xmin::text FROM deleted_tenants WHERE id = $1`;
        expect(await target.sql(written, [other.tenant_id])).toHaveLength(1);
      }
      // The sweep removes what the deleted tenant had, and its tokens are no erasures of their own.
      await sweep(target.ctx);
      expect(await target.sql('SELECT FROM tokens WHERE tenant_id = $1', [other.tenant_id])).toEqual([]);
      const usage = await target.request('GET', '/tenants/self/reports/usage', { key: tenant.api_key });
      const stored = await target.sql('SELECT count(*)::int AS count FROM tokens WHERE tenant_id = $1', [
        tenant.tenant_id,
      ]);
      expect(usage.body.token_report.metrics_by_type.token.count).toBe(stored[0].count);
      const kinds = await target.sql('SELECT kind, count(*)::int AS count FROM erasures GROUP BY kind ORDER BY kind');
      expect(kinds).toEqual([
        { kind: 'api_key', count: 2 },
        { kind: 'application', count: 1 },
        { kind: 'proxy', count: 1 },
        { kind: 'tenant', count: 1 },
        { kind: 'token', count: 3 },
      ]);
    } finally {
      await target.close();
    }
  });

  test('are replayed in a vault that came back by other means', async () => {
    const source = await startServer();
    const [kept, erased] = [await tokenize(source, 'kept'), await tokenize(source, 'erased')];
    const [row] = await source.sql('SELECT to_json(t) AS row FROM tokens t WHERE id = $1', [erased]);
    await source.request('DELETE', `/tokens/${erased}`);
    const other = await source.newTenant();
    const [tenant] = await source.sql('SELECT to_json(t) AS row FROM tenants t WHERE id = $1', [other.tenant_id]);
    await source.request('DELETE', '/tenants/self', { key: other.api_key });
    const list = here.backups.fileNamed('replayed');
    expect((await here.backups.cli(source.databaseUrl, ['erasures', 'export', list])).code).toBe(0);
    // As a recovery to an earlier time would.
    await source.sql('INSERT INTO tokens SELECT * FROM json_populate_record(NULL::tokens, $1)', [row.row]);
    await source.sql('INSERT INTO tenants SELECT * FROM json_populate_record(NULL::tenants, $1)', [tenant.row]);
    await source.sql('DELETE FROM deleted_tenants');
    expect((await source.request('GET', `/tokens/${erased}`)).status).toBe(200);
    const { code, stdout } = await here.backups.cli(source.databaseUrl, ['erasures', 'replay', list]);
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/\(2 entries\)\. Deleted again: 1 tenant, .* 1 token\.\n$/),
    ]);
    expect((await deletionsOf(source, other.tenant_id)).at(-1)).toEqual({ actor_type: 'operator', isIntact: true });
    expect((await source.request('GET', `/tokens/${erased}`)).status).toBe(404);
    expect((await source.request('GET', `/tokens/${kept}`)).status).toBe(200);
    await source.close();
  });

  test('delete nothing where the log cannot say so', async () => {
    const source = await startServer();
    const other = await source.newTenant();
    const [tenant] = await source.sql('SELECT to_json(t) AS row FROM tenants t WHERE id = $1', [other.tenant_id]);
    await source.request('DELETE', '/tenants/self', { key: other.api_key });
    const list = here.backups.fileNamed('unlogged');
    expect((await here.backups.cli(source.databaseUrl, ['erasures', 'export', list])).code).toBe(0);
    await source.sql('INSERT INTO tenants SELECT * FROM json_populate_record(NULL::tenants, $1)', [tenant.row]);
    await source.sql('ALTER TABLE audit_log RENAME COLUMN mac TO not_yet');
    const replay = () => here.backups.cli(source.databaseUrl, ['erasures', 'replay', list]);
    const refused = await replay();
    expect([refused.code, refused.stdout]).toEqual([1, '']);
    expect(refused.stderr).toContain('The database refused');
    const count = async () => (await source.sql('SELECT FROM tenants WHERE id = $1', [other.tenant_id])).length;
    expect(await count()).toBe(1);
    await source.sql('ALTER TABLE audit_log RENAME COLUMN not_yet TO mac');
    expect([(await replay()).code, await count()]).toEqual([0, 0]);
    await source.close();
  });

  test.skipIf(isDistributed)('are written by the trigger alone, where tokens have it', async () => {
    const id = await tokenize(here.server, 'left to the trigger');
    await here.server.sql('ALTER TABLE tokens DISABLE TRIGGER tokens_record_erasures');
    await here.server.request('DELETE', `/tokens/${id}`);
    await here.server.sql('ALTER TABLE tokens ENABLE TRIGGER tokens_record_erasures');
    expect(await here.server.sql('SELECT FROM erasures WHERE id = $1', [id])).toEqual([]);
  });

  test('are forgotten after ERASURES_KEPT_DAYS', async () => {
    const source = await startServer({ ERASURES_KEPT_DAYS: '2' });
    const id = await tokenize(source, 'old');
    await source.request('DELETE', `/tokens/${id}`);
    await sweep(source.ctx);
    expect(await source.sql('SELECT id, kind FROM erasures')).toEqual([{ id, kind: 'token' }]);
    source.clock.offsetMs = 2 * 86_400_000 + 60_000;
    await sweep(source.ctx);
    expect(await source.sql('SELECT FROM erasures')).toEqual([]);
    await source.close();
  });

  test('a changed list, and one of another vault, is refused before any row is written', () =>
    withEmpty(async (database) => {
      const backup = await here.backups.backUp(here.server.databaseUrl, 'list.age');
      const id = await tokenize(here.server, 'to be erased');
      await here.server.request('DELETE', `/tokens/${id}`);
      const list = here.backups.fileNamed('list');
      await here.backups.cli(here.server.databaseUrl, ['erasures', 'export', list]);
      const text = readFileSync(list, 'utf8');
      const [head, seal, ...rows] = text.split('\n') as [string, string, ...string[]];
      const variants = {
        head: [head.replace('"rows":', '"rows": '), seal, ...rows].join('\n'),
        rows: [head, seal, ...rows].join('\n').replace(id, crypto.randomUUID()),
        end: text.slice(0, -3),
        more: `${text}x`,
      };
      for (const [name, content] of Object.entries(variants)) {
        writeFileSync(here.backups.fileNamed(`list-${name}`), content);
        const { code, stderr } = await here.backups.restore(
          database.url,
          backup,
          '--erasures',
          here.backups.fileNamed(`list-${name}`),
        );
        expect([name, code, stderr]).toEqual([name, 1, expect.stringMatching(/Nothing was restored\.|root key/)]);
        await expectNothing(database);
      }
      const swapped = await here.backups.restore(database.url, backup, '--erasures', backup);
      expect([swapped.code, swapped.stderr]).toEqual([1, expect.stringContaining('was cut off or changed')]);
    }));
});
