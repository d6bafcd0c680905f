// A configuration without projects, for runs of tests that are written by a test.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const reporter = fileURLToPath(new URL('reporter.ts', import.meta.url));

export default defineConfig({
  test: { pool: 'forks', include: ['*.test.ts'], reporters: ['default', reporter] },
});
