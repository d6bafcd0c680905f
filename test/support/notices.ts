// Observes or blocks the notices between the processes of a vault.
import { NOTICES_NAME } from '../../src/platform/db/application-names.ts';
import { Client } from 'pg';
import { expect } from 'vitest';
import type { Announced } from '../../src/platform/base/cache.ts';
import type { TestServer } from './server.ts';
import { seeingAllTenants } from './database.ts';

/** Listens beside the server. `times` waits until a notice was heard so often; a test that waits in vain times out. */
export const hearNotices = async (server: Pick<TestServer, 'databaseUrl'>) => {
  const client = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
  const heard: string[] = [];
  client.on('notification', ({ payload }) => void heard.push(payload ?? ''));
  await client.connect();
  await client.query('LISTEN strongroom_changed');
  return {
    times: async (notice: string, count: number): Promise<void> => {
      while (heard.filter((each) => each === notice).length < count)
        await new Promise((resolve) => setTimeout(resolve, 10));
    },
    close: () => client.end(),
  };
};

/** Cuts the connection on which the server hears notices; it listens again after a second. */
export const deafen = async (server: Pick<TestServer, 'sql'>): Promise<void> => {
  await server.sql(
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
     WHERE application_name = '${NOTICES_NAME}' AND datname = current_database()`,
  );
};

/** Hears the changes of which a server learns by the notices of others. `of` waits until a change was heard. */
export const hearChanges = (server: Pick<TestServer, 'ctx'>) => {
  const heard: Announced[] = [];
  server.ctx.changes.on((change) => void heard.push(change));
  return {
    of: (change: Announced): Promise<void> => expect.poll(() => heard, { timeout: 10_000 }).toContainEqual(change),
  };
};
