// The plan of every hot statement on a distributed database: one task, on one shard.
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { shardFunctions } from '../../src/modules.ts';
import * as tokens from '../../src/modules/tokens/rows/token-sql.ts';
import { callOf } from '../../src/platform/db/shard-functions.ts';

const TENANT = randomUUID();
const now = new Date();

/** Parameters of statements that are no functions there. */
const statements: Partial<Record<keyof typeof tokens, unknown[]>> = {
  FIND_TOKENS: [TENANT, ['a', 'b']],
  FIND_VALUES: [TENANT, ['a', 'b']],
  FIND_RECORDS: [TENANT, ['a', 'b']],
  INSERT_ASSOCIATION: [TENANT, 'a', 'b', now, TENANT],
  LINK_TOKEN: [TENANT, 'a', 'b', now, TENANT],
  DELETE_ASSOCIATION: [TENANT, 'a', 'b'],
  LOCK_TOKEN: [TENANT, 'a', now],
  UPDATE_TOKEN: [TENANT, 'a', 'AAAA', 'print', '{{ data }}', '/x/', '{}', [], [], now, false, now, TENANT],
  PUT_CVC: [TENANT, 'a', 'AAAA', now],
  DELETE_CVC: [TENANT, 'a'],
  LOCK_FOR_DELETE: [TENANT, 'a'],
};

const textOf = new Map<string, string>(Object.entries(tokens));

/** Parameters of functions, after the tenant. */
const parameters: Record<string, unknown[]> = {
  'insert-tokens': ['[]'],
  'write-unique-tokens': ['[]'],
  'insert-logs': ['[]'],
  'insert-refusal': ['{}', TENANT, 60, 'Sign-in failed'],
  'find-fingerprints': [['print'], ['{{ data }}'], now, ['%']],
  'delete-token': ['a', '/x/', '{}'],
};

/** @throws unless every statement is one task. @returns how many were read. */
export const explainAll = async (url: string): Promise<number> => {
  const client = new Client({ connectionString: url, options: '-c strongroom.tenants=*' });
  await client.connect();
  const texts: [string, string, unknown[]][] = [
    ...Object.entries(statements).map(([name, values]): [string, string, unknown[]] => [
      name,
      textOf.get(name) as string,
      values,
    ]),
    ...shardFunctions
      .filter(({ isOnCoordinator }) => !isOnCoordinator)
      .map((each): [string, string, unknown[]] => [
        each.statement,
        callOf(each),
        [TENANT, ...(parameters[each.statement] as unknown[])],
      ]),
  ];
  try {
    for (const [name, text, values] of texts) {
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN (COSTS OFF) ${text}`, values);
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      if (!/Task Count: 1$/m.test(plan) || /Subplan|INSERT \.\.\. SELECT/.test(plan))
        throw new Error(`${name} is not one task:\n${plan}`);
    }
    return texts.length;
  } finally {
    await client.end();
  }
};
