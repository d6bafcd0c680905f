// Times in a database whose time zone is not UTC: Prisma sends and reads them without an offset.
import { expect, test } from 'vitest';
import { findTenants } from '../src/modules/access/rows/tenants.ts';
import { acceptInvitation } from '../src/modules/people/acceptance.ts';
import { startSession } from '../src/modules/people/sessions.ts';
import { createContext } from '../src/modules.ts';
import { invite, PASSWORD } from './support/people.ts';
import { startServer } from './support/server.ts';

const HOUR_MS = 3_600_000;

test('a database in New York stores and returns the times that were written', async () => {
  const server = await startServer();
  const { pathname } = new URL(server.databaseUrl);
  await server.sql(`ALTER DATABASE ${pathname.slice(1)} SET TimeZone = 'America/New_York'`);
  // New connections have the time zone of the database.
  const ctx = await createContext(server.ctx.config, 'server', { logDestination: { write: () => undefined } });
  try {
    const { tenant_id } = server.tenant;
    const startMs = Date.now() - 60_000;
    const { secret } = await invite(server, 'ada@example.com', server.tenant);
    const names = { first_name: 'Ada', last_name: 'Lovelace' };
    const accepted = await acceptInvitation(ctx, secret, { ...names, password: PASSWORD });
    if (accepted.kind !== 'accepted') throw new Error(accepted.kind);
    await startSession(ctx, accepted.member);
    const [session] = await server.sql('SELECT created_at, expires_at FROM sessions WHERE tenant_id = $1', [tenant_id]);
    expect(session.created_at.getTime()).toBeGreaterThan(startMs);
    expect(session.created_at.getTime()).toBeLessThanOrEqual(Date.now());
    expect(session.expires_at.getTime() - session.created_at.getTime()).toBe(12 * HOUR_MS);
    const [tenant] = await findTenants(ctx.db, tenant_id);
    const [stored] = await server.sql('SELECT created_at FROM tenants WHERE id = $1', [tenant_id]);
    expect(tenant?.created_at).toEqual(stored.created_at);
  } finally {
    await ctx.close();
    await server.close();
  }
});
