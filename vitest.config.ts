import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SlowestFirst } from './test/support/sequencer.ts';

// Node's compile cache. Every worker and every process of ours strips the types of the same files and compiles them: most of a start.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('./node_modules/.cache/strongroom', import.meta.url));

/** Tests of files alone, which are part of `npm run check`. */
const pureTests = [
  'test/promises/dependencies.test.ts',
  'test/promises/documents.test.ts',
  'test/promises/growth.test.ts',
  'test/promises/signed-tables.test.ts',
  'test/promises/named-tenants.test.ts',
  'test/promises/style.test.ts',
  'test/helm.test.ts',
  'test/kubernetes.test.ts',
  'test/systemd.test.ts',
];

// docs/decisions/0082-tests-and-drills.md says what belongs to which project, and why.
export default defineConfig({
  test: {
    pool: 'forks',
    // Two files at once for two cores. Some tests measure times, and more files at once make them fail now and then.
    maxWorkers: 2,
    // Files of one worker share its modules, so that a file costs neither a process nor an import of the server.
    isolate: false,
    // Modules are loaded by Node itself, as they are when the server runs, and not rewritten by Vite, which takes longer.
    experimental: { viteModuleRunner: false },
    // `TEST_RESULTS` names a file for the results as JSON: .ci/run adds up those of its parts.
    reporters: [
      'default',
      './test/support/reporter.ts',
      ...(process.env['TEST_RESULTS']
        ? [['json', { outputFile: process.env['TEST_RESULTS'] }] as ['json', { outputFile: string }]]
        : []),
    ],
    // One of thousands of tests fails by the load of a machine now and then. The end of a run names those that passed at the second try.
    retry: process.env['CI'] ? 1 : 0,
    sequence: { sequencer: SlowestFirst },
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
          include: ['test/*.test.ts', 'test/promises/*.test.ts'],
          exclude: pureTests,
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/setup.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'process',
          include: ['test/process/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          setupFiles: ['test/support/setup.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
