// Hot statements on tokens as functions for Citus, made of the same parts as the statements.
// A statement whose parts share a WITH clause would send rows to every worker there.
import { insertLogsFrom, LOG_RECORD } from '../../../platform/db/audit-rows.ts';
import { callOf, type ShardFunction } from '../../../platform/db/shard-functions.ts';
import { countTokensFrom, insertCvcsFrom, insertTokensFrom, logTokensFrom, NEW_TOKENS } from './new-tokens-sql.ts';
import { FIND_BY_FINGERPRINTS, LOCK_FINGERPRINTS, TOKEN_TYPES } from './token-sql.ts';

const insertTokens: ShardFunction = {
  statement: 'insert-tokens',
  parameters: ['uuid', 'json'],
  block: `BEGIN
${insertTokensFrom(NEW_TOKENS)};
${insertCvcsFrom(NEW_TOKENS)};
${countTokensFrom(NEW_TOKENS)};
${logTokensFrom(NEW_TOKENS)};
END`,
};

/**
 * Does the same as insert_unique_tokens in prisma/migrations/20261127120000_baseline, after its locks. The tenant is compared
 * by `=`, since Citus finds the shard by that.
 */
const writeUniqueTokens: ShardFunction = {
  statement: 'write-unique-tokens',
  parameters: ['uuid', 'json'],
  columns: 'place int, existing text',
  block: `DECLARE
  r record;
  found text;
  written text[] := '{}';
BEGIN
  FOR r IN
    SELECT g.*, json_build_array($2 -> (g.ordinality - 1)::int) AS only FROM ROWS FROM (json_to_recordset($2) AS (
      id text, fingerprint text, fingerprint_expression text, created_at timestamptz, bound_to jsonb, seen text[]
    )) WITH ORDINALITY AS g
  LOOP
    found := NULL;
    IF r.seen IS NOT NULL THEN
      SELECT equal.id INTO found FROM (
        SELECT t.id, t.created_at FROM tokens t
        WHERE t.tenant_id = $1 AND t.fingerprint = r.fingerprint AND t.fingerprint_expression = r.fingerprint_expression
          AND t.container LIKE ANY (r.seen) AND (t.expires_at IS NULL OR t.expires_at > r.created_at)
          AND t.bound_to IS NOT DISTINCT FROM r.bound_to
        OFFSET 0
      ) AS equal ORDER BY equal.created_at, equal.id LIMIT 1;
    END IF;
    IF found IS NOT NULL THEN
      place := r.ordinality;
      existing := found;
      RETURN NEXT;
    ELSE
${insertTokensFrom(NEW_TOKENS.replace('$2::json', 'r.only'))};
${insertCvcsFrom(NEW_TOKENS.replace('$2::json', 'r.only'))};
      written := written || r.id;
    END IF;
  END LOOP;
${countTokensFrom(`${NEW_TOKENS} WHERE id = ANY (written)`)};
${logTokensFrom(`${NEW_TOKENS} WHERE id = ANY (written)`, NEW_TOKENS)};
END`,
};

/** The locks are on the coordinator, where transactions take them too. */
const insertUniqueTokens: ShardFunction = {
  statement: 'insert-unique-tokens',
  parameters: ['uuid', 'json'],
  columns: 'place int, existing text',
  isOnCoordinator: true,
  block: `DECLARE
  prints text[] := ARRAY(
    SELECT g.fingerprint FROM json_to_recordset($2) AS g(fingerprint text, seen text[]) WHERE g.seen IS NOT NULL
  );
BEGIN
  ${LOCK_FINGERPRINTS.replace('SELECT', 'PERFORM').replace('$1', '$1::text').replace('$2::text[]', 'prints')};
  RETURN QUERY ${callOf(writeUniqueTokens)};
END`,
};

const findFingerprints: ShardFunction = {
  statement: 'find-fingerprints',
  parameters: ['uuid', 'text[]', 'text[]', 'timestamptz', 'text[]', 'jsonb[]'],
  columns: TOKEN_TYPES,
  block: `BEGIN
  RETURN QUERY ${FIND_BY_FINGERPRINTS.replace('tenant_id IS NOT DISTINCT FROM $1', 'tenant_id = $1')};
END`,
};

const deleteToken: ShardFunction = {
  statement: 'delete-token',
  parameters: ['uuid', 'text', 'text', 'json'],
  columns: 'id text',
  block: `DECLARE
  gone record;
BEGIN
  DELETE FROM tokens WHERE tenant_id = $1 AND id = $2 AND container = $3 RETURNING tokens.id, tokens.type INTO gone;
  IF gone.id IS NULL THEN
    RETURN;
  END IF;
  DELETE FROM token_cvcs WHERE tenant_id = $1 AND id = $2;
  INSERT INTO token_counts (tenant_id, id, type, change) VALUES ($1, gen_random_uuid(), gone.type, -1);
${insertLogsFrom(`json_to_recordset(json_build_array($4)) AS r(${LOG_RECORD})`)};
  RETURN QUERY SELECT gone.id;
END`,
};

/** In the order in which they are made: a function that another one calls comes first. */
export const tokenFunctions: readonly ShardFunction[] = [
  insertTokens,
  writeUniqueTokens,
  insertUniqueTokens,
  findFingerprints,
  deleteToken,
];
