// Checks what a start needs, one line each, with the fix where a check fails.
import { loadConfig } from '../config.ts';
import { createContext } from '../context.ts';

/** @returns whether everything holds. Starts nothing that it does not stop. */
export const doctor = async (out: { write(text: string): unknown }): Promise<boolean> => {
  let ok = true;
  const check = async <T>(
    name: string,
    run: () => Promise<T> | T,
    tell: (result: T) => string,
  ): Promise<T | undefined> => {
    try {
      const result = await run();
      out.write(`✔ ${name}: ${tell(result)}\n`);
      return result;
    } catch (error) {
      ok = false;
      out.write(`✘ ${name}: ${(error as Error).message}\n`);
      return undefined;
    }
  };

  await check(
    'Node',
    () => process.versions.node,
    (version) => version,
  );
  const config = await check(
    'configuration',
    () => loadConfig(),
    (loaded) => loaded.mode,
  );
  if (!config) return false;
  // Opening a context opens the database, compares the migrations, and opens the canary under the root key.
  const ctx = await check(
    'database and root key',
    () => createContext({ ...config, logLevel: 'silent' }, 'command'),
    (made) => (made.embedded ? `embedded, in ${config.dataDir}` : 'DATABASE_URL answers, and the root key opens it'),
  );
  if (!ctx) return false;
  try {
    await check(
      'migrations',
      () => ctx.migrations,
      ({ total }) => `${total}, up to date`,
    );
    await check(
      'tenants',
      () => ctx.db.hasTenants(),
      (there) => (there ? 'initialized' : 'none yet: strongroom bootstrap --tenant-name NAME'),
    );
  } finally {
    await ctx.close();
  }
  return ok;
};
