// The security codes that one forwarded request sends, where its proxy lets them go with the answer
// (docs/decisions/0132-code-until-answered.md).
import type { Work } from '../access/work.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { TokensContext } from './context.ts';
import type { CountUses } from './bound-uses.ts';
import { parseTokenReference, type References } from './expressions/expansion.ts';
import { JsonPathError, parseJsonPath, type Segment } from './expressions/json-path-parser.ts';
import type { Expression } from './expressions/template.ts';
import { claimCodes, consumeCodes, keepCodes, releaseCodes, type StoredCode } from './rows/code-claims.ts';
import type { FoundCvc } from './rows/token-row.ts';

/** How long a request whose outcome is not known holds a code. Processors answer or time out within a minute. */
export const CLAIM_MS = 60_000;

/** How often an answer may keep a code: a card that is declined thrice needs its owner. */
export const KEPT_ANSWERS_MAX = 2;

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
export const idsReadingCode = ({ templates }: Pick<References, 'templates'>): Set<string> => {
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
export type CodeOutcome = 'none' | 'consumed' | 'kept';

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
