// Hot statements as functions. Citus runs a function as a whole on the worker that has the rows of its tenant.
// The command `db distribute` makes them. Where they are, the server calls them in place of the statements.
import { sha256Hex } from '../crypto/digest.ts';

export type ShardFunction = {
  /** The name of the statement that it replaces. Its text is the same, or has the same effect. */
  statement: string;
  /** SQL types of the parameters. The first is the tenant. */
  parameters: readonly string[];
  /** Names and types of the columns that it returns; undefined for none. */
  columns?: string;
  /** A block of PL/pgSQL with the parameters $1, $2 ... It reads and writes rows of the tenant only. */
  block: string;
  /** Set for a function that calls another one on the shard after it took locks that all workers share. */
  isOnCoordinator?: boolean;
};

/** Names of columns win over those of `columns`, which are variables in PL/pgSQL. */
const definitionOf = ({ parameters, columns, block }: ShardFunction): string =>
  `(${parameters.join(', ')}) RETURNS ${columns === undefined ? 'void' : `TABLE (${columns})`} LANGUAGE plpgsql AS $body$
#variable_conflict use_column
${block}
$body$`;

/** Another text has another name, so that servers of two releases each find their own. */
export const functionName = (shardFunction: ShardFunction): string =>
  `${shardFunction.statement.replaceAll('-', '_')}_${sha256Hex(definitionOf(shardFunction)).slice(0, 12)}`;

export const createFunctionText = (shardFunction: ShardFunction): string =>
  `CREATE FUNCTION ${functionName(shardFunction)}${definitionOf(shardFunction)}`;

/** How types are named in a signature. */
export const signatureOf = (shardFunction: ShardFunction): string =>
  `${functionName(shardFunction)}(${shardFunction.parameters.join(', ')})`;

/** In FROM: Citus runs such a call on a worker within a transaction and within PL/pgSQL too. */
export const callOf = (shardFunction: ShardFunction): string =>
  `SELECT * FROM ${functionName(shardFunction)}(${shardFunction.parameters.map((_, index) => `$${index + 1}`).join(', ')})`;

/** A named statement that calls a function. */
export type ShardCall = { name: string; text: string };

const FIND = `SELECT proname::text AS name FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ($1::text[])`;

/** The calls to make in place of statements, by the names of these. None where nothing was distributed. @throws what `ask` throws. */
export const findShardCalls = async (
  ask: (text: string, values: unknown[]) => Promise<unknown[]>,
  functions: readonly ShardFunction[],
): Promise<Map<string, ShardCall>> => {
  const rows = (await ask(FIND, [functions.map(functionName)])) as { name: string }[];
  const there = new Set(rows.map(({ name }) => name));
  return new Map(
    functions
      .filter((each) => there.has(functionName(each)))
      .map((each) => [each.statement, { name: functionName(each), text: callOf(each) }]),
  );
};
