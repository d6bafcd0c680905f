import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// Node keeps there what it made of each file, by its content: to strip types and to compile is most of a start, and every worker
// and every process of ours does the same.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('./node_modules/.cache/strongroom', import.meta.url));

/** Tests of files alone, which are part of `npm run check`. */
const pureTests = [
  'test/promises/dependencies.test.ts',
  'test/promises/documents.test.ts',
  'test/promises/signed-tables.test.ts',
  'test/promises/named-tenants.test.ts',
  'test/promises/style.test.ts',
  'test/kubernetes.test.ts',
  'test/systemd.test.ts',
];

// Two projects: `pure` needs nothing and is part of `npm run check`; `door` has the real database, server and processes.
export default defineConfig({
  test: {
    pool: 'forks',
    // Most of a test's time is waiting for processes of ours: on two cores two files at once take two thirds of the time.
    maxWorkers: 2,
    // Modules are loaded by Node itself, as they are when the server runs, and not rewritten by Vite, which takes longer.
    experimental: { viteModuleRunner: false },
    projects: [
      {
        extends: true,
        // The 5 s of the default are few where others are busy on the same cores: tests of properties take a second alone.
        test: {
          name: 'pure',
          include: ['src/**/*.test.ts', 'packages/*/test/*.test.ts', ...pureTests],
          testTimeout: 90_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'door',
          include: ['test/**/*.test.ts'],
          exclude: pureTests,
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
