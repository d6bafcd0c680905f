// Variables of a vault that tests start: its endpoints for tests, and its prepared database.
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { flag } from './forms.ts';

/** Variables of a vault in a test. */
export const testingVariables = {
  TEST_ENDPOINTS: flag(false).describe(
    'Serves the endpoints for tests below `/test`: they advance the clock, make tenants, and tell what the fake processor received. A start in production with it fails.',
  ),
  TEST_TEMPLATE_DIR: z
    .string()
    .refine(isAbsolute, 'must be the absolute path of a directory')
    .optional()
    .describe(
      'Where prepared databases for tests are kept: with TEST_ENDPOINTS, a new data directory gets a copy of one. Not set: each start makes its own.',
    ),
};

type Values = {
  TEST_ENDPOINTS: boolean;
  TEST_TEMPLATE_DIR?: string | undefined;
  DATABASE_URL?: string | undefined;
  MASTER_KEY_SHARES?: unknown;
};

/** What is wrong with the variables of tests. @param workers processes that serve. */
export const findTestingProblems = (values: Values, mode: 'development' | 'production', workers: number): string[] => {
  const problems: string[] = [];
  if (values.TEST_TEMPLATE_DIR !== undefined && !values.TEST_ENDPOINTS)
    problems.push('TEST_TEMPLATE_DIR: is for tests only, and needs TEST_ENDPOINTS=on. Unset it.');
  if (values.TEST_TEMPLATE_DIR !== undefined && values.DATABASE_URL !== undefined)
    problems.push('TEST_TEMPLATE_DIR: must not be beside DATABASE_URL, which names a database. Unset one of them.');
  if (!values.TEST_ENDPOINTS) return problems;
  if (mode === 'production')
    problems.push(
      'TEST_ENDPOINTS: is for development only: a key of one tenant could advance the clock of the whole vault, which ends tokens and sessions of all tenants for good. Unset it.',
    );
  if (workers > 1 || values.MASTER_KEY_SHARES !== undefined)
    problems.push(
      'TEST_ENDPOINTS: needs a server of one process, which has the clock. Unset WORKERS and MASTER_KEY_SHARES.',
    );
  return problems;
};
