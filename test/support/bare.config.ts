// A configuration without projects, for runs of tests that are written by a test.
import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { pool: 'forks', include: ['*.test.ts'] } });
