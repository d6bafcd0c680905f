import { defineConfig } from 'vitest/config';

// Two projects: `pure` needs nothing and is part of `npm run check`; `door` has the real database, server and processes.
export default defineConfig({
  test: {
    pool: 'forks',
    // Most of a test's time is waiting for processes of ours: on two cores two files at once take two thirds of the time.
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        // The 5 s of the default are few where others are busy on the same cores.
        test: { name: 'pure', include: ['src/**/*.test.ts', 'test/promises/layers.test.ts'], testTimeout: 20_000 },
      },
      {
        extends: true,
        test: {
          name: 'door',
          include: ['test/**/*.test.ts'],
          exclude: ['test/promises/layers.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
