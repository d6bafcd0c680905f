// The security codes that one forwarded request sends, where its proxy lets them go with the answer
// (docs/decisions/0132-code-until-answered.md).
import type { Work } from '../access/work.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { TokensContext } from './context.ts';
import type { CountUses } from './bound-uses.ts';
import { parseTokenReference, type References } from './expressions/expansion.ts';
import { JsonPathError, parseJsonPath, type Segment } from './expressions/json-path-parser.ts';
import type { Expression } from './expressions/template.ts';
import type { FoundCvc } from './rows/token-row.ts';
import type { TenantQuery } from '../../platform/db/database.ts';
import type { Query } from '../../platform/db/statements.ts';

// Claims on security codes: a request that sends a code holds it until the destination has answered.
// A code is known by its sealed bytes too, so that a code that was collected again meanwhile is another one.

/** A stored code: of a token, and its sealed bytes in base64. */
type StoredCode = { id: string; sealed: string };

const wanted = `unnest($2::text[], $3::text[]) AS w(id, sealed)`;
const isWanted = `c.tenant_id = $1 AND c.id = w.id AND c.sealed = decode(w.sealed, 'base64')`;

/**
 * Locked in the order of ids, so that two requests with the same cards wait for each other instead of locking each other out.
 * A repetition of the request that holds a code is no second request.
 */
const CLAIM = `
WITH free AS (
  SELECT c.id FROM token_cvcs c JOIN ${wanted} ON ${isWanted}
  WHERE c.claimed_until IS NULL OR c.claimed_until <= $4 OR c.claimed_by = $6::uuid ORDER BY c.id FOR UPDATE OF c
)
UPDATE token_cvcs c SET claimed_until = $5, claimed_by = $6::uuid
FROM free WHERE c.tenant_id = $1 AND c.id = free.id RETURNING c.id`;

/** A claim that is over may be another request's by now. */
const RELEASE = `
UPDATE token_cvcs c SET claimed_until = NULL FROM ${wanted} WHERE ${isWanted} AND c.claimed_until = $4`;

const CONSUME = `DELETE FROM token_cvcs c USING ${wanted} WHERE ${isWanted}`;

/** Codes that were kept often enough go. */
const KEEP = `
WITH gone AS (
  DELETE FROM token_cvcs c USING ${wanted} WHERE ${isWanted} AND c.kept >= $4
)
UPDATE token_cvcs c SET claimed_until = NULL, kept = c.kept + 1 FROM ${wanted} WHERE ${isWanted} AND c.kept < $4
RETURNING c.id`;

const listsOf = (codes: readonly StoredCode[]) => [codes.map(({ id }) => id), codes.map(({ sealed }) => sealed)];

/**
 * @param forward_id of the record that the request has, if it has one: another attempt of the same may take over.
 * @returns whether all of them were free. If not, the transaction must fail.
 */
const claimCodes = async (
  query: Query,
  tenant_id: string,
  codes: readonly StoredCode[],
  { now, until, forward_id = null }: { now: Date; until: Date; forward_id: string | null | undefined },
): Promise<boolean> => {
  const values = [tenant_id, ...listsOf(codes), now, until, forward_id];
  const claimed = (await query('claim-codes', CLAIM, values)) as unknown[];
  return claimed.length === codes.length;
};

const releaseCodes = async (
  { query, tenant_id }: TenantQuery,
  codes: readonly StoredCode[],
  until: Date,
): Promise<void> => {
  await query('release-codes', RELEASE, [tenant_id, ...listsOf(codes), until]);
};

const consumeCodes = async ({ query, tenant_id }: TenantQuery, codes: readonly StoredCode[]): Promise<void> => {
  await query('consume-codes', CONSUME, [tenant_id, ...listsOf(codes)]);
};

/** Keeps codes that were kept fewer than `most` times, and deletes the others. @returns whether all were kept. */
const keepCodes = async (
  { query, tenant_id }: TenantQuery,
  codes: readonly StoredCode[],
  most: number,
): Promise<boolean> => {
  const kept = (await query('keep-codes', KEEP, [tenant_id, ...listsOf(codes), most])) as unknown[];
  return kept.length === codes.length;
};

/** How long a request whose outcome is not known holds a code. Processors answer or time out within a minute. */
const CLAIM_MS = 60_000;

/** How often an answer may keep a code: a card that is declined thrice needs its owner. */
const KEPT_ANSWERS_MAX = 2;

const RETRY_AFTER_SECONDS = 1;

const isClaimed = () =>
  new AppError('conflict', 'Another request uses the security code of this card, and its outcome is not known yet.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });

/** The name that a path begins with; undefined where it may be several. */
const firstName = ([first]: readonly Segment[]): string | undefined => {
  const [selector] = first?.selectors ?? [];
  if (!first || first.descends || first.selectors.length !== 1 || selector?.kind !== 'name') return undefined;
  return selector.name;
};

/** Whether what an expression gives may hold the security code of its card. Only a path to another part does not. */
const mayReadCode = ({ filters: [filter] }: Expression, isWhole: boolean): boolean => {
  if (filter?.name === 'card_exp') return false;
  const [path] = filter?.args ?? [];
  if (filter?.name !== 'json' || typeof path !== 'string') return true;
  try {
    const segments = parseJsonPath(path);
    const name = firstName(segments);
    if (!isWhole) return name === undefined || name === 'cvc';
    if (name !== undefined && name !== 'data') return false;
    const part = firstName(segments.slice(1));
    return part === undefined || part === 'cvc';
  } catch (error) {
    if (error instanceof JsonPathError) return true;
    throw error;
  }
};

/** The tokens of which expressions may read the security code. */
const idsReadingCode = ({ templates }: Pick<References, 'templates'>): Set<string> => {
  const ids = new Set<string>();
  for (const { parts } of templates.values())
    for (const part of parts) {
      if (typeof part === 'string' || part.literal !== undefined) continue;
      const { id, whole } = parseTokenReference(part.head);
      if (mayReadCode(part, whole)) ids.add(id);
    }
  return ids;
};

/** What became of the codes of a request. */
type CodeOutcome = 'none' | 'consumed' | 'kept';

export class CodeClaim {
  readonly #ctx: Pick<TokensContext, 'db' | 'now'>;
  readonly #tenant: Pick<Work, 'tenant_id'>;
  readonly #references: References;
  readonly #forwardId: string | undefined;
  #codes: StoredCode[] = [];
  #until: Date | undefined;
  outcome: CodeOutcome = 'none';

  /** @param forwardId of the request's record, where it has an idempotency key. */
  constructor(
    ctx: Pick<TokensContext, 'db' | 'now'>,
    { tenant_id }: Pick<Work, 'tenant_id'>,
    references: References,
    forwardId: string | undefined,
  ) {
    this.#ctx = ctx;
    this.#tenant = { tenant_id };
    this.#references = references;
    this.#forwardId = forwardId;
  }

  /**
   * Claims the codes that the request reads, in the transaction of the log row. @param ids of tokens whose code was opened.
   * @throws conflict where another request holds one.
   */
  claiming(rows: readonly ({ id: string } & Partial<FoundCvc>)[], ids: ReadonlySet<string>): CountUses | undefined {
    const read = idsReadingCode(this.#references);
    const codes = rows.flatMap(({ id, cvc_sealed }) =>
      cvc_sealed && ids.has(id) && read.has(id) ? [{ id, sealed: cvc_sealed.toString('base64') }] : [],
    );
    if (codes.length === 0) return undefined;
    return async (query) => {
      const now = this.#ctx.now();
      const until = new Date(now.getTime() + CLAIM_MS);
      const claim = { now, until, forward_id: this.#forwardId };
      if (!(await claimCodes(query, this.#tenant.tenant_id, codes, claim))) throw isClaimed();
      this.#codes = codes;
      this.#until = until;
    };
  }

  /** Nothing reached the destination. Where this fails, the claim ends by itself. */
  async release(): Promise<void> {
    if (this.#until === undefined) return;
    await releaseCodes(this.#ctx.db.for(this.#tenant), this.#codes, this.#until);
  }

  /** The destination has answered: the codes go, unless the answer says that they may be needed again. @throws unavailable. */
  async settle(isKept: boolean): Promise<void> {
    if (this.#until === undefined) return;
    const db = this.#ctx.db.for(this.#tenant);
    if (isKept) this.outcome = (await keepCodes(db, this.#codes, KEPT_ANSWERS_MAX)) ? 'kept' : 'consumed';
    else {
      await consumeCodes(db, this.#codes);
      this.outcome = 'consumed';
    }
  }

  get isHeld(): boolean {
    return this.#until !== undefined;
  }
}
