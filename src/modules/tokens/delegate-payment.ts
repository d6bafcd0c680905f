// Makes the token of a delegated payment: a card that may be charged once, within an allowance, through the proxies of the tenant.
import { DELEGATED_CONTAINER, type DelegatedPayments } from '../access/delegated-payments.ts';
import type { Work } from '../access/work.ts';
import { AppError, FieldErrorCollector, invalidInput, unavailable } from '../../platform/base/errors.ts';
import { DAY_MS, MINUTE_MS } from '../../platform/base/times.ts';
import { isSignedBy } from '../../platform/crypto/ed25519.ts';
import { randomBase62 } from '../../platform/crypto/digest.ts';
import { NO_PATH } from '../../platform/http/host.ts';
import { parseDate } from '../../platform/json/dates.ts';
import type { Json } from '../../platform/json/json.ts';
import type { TokensContext } from './context.ts';
import { createTokens } from './create-tokens.ts';
import type { DelegatedCard } from './delegated-card.schema.ts';
import { type Draft, parseTokenRequest } from './token-request.ts';
import { draftTools } from './tokens.ts';

/** 154 bits: an agent cannot guess the id of another card. */
const ID_CHARACTERS = 26;

/** Until disputes and refunds of a charge have been asked for. Nothing uses the card after its allowance has ended. */
const KEPT_AFTER_END_MS = 30 * DAY_MS;

/** A signed request is not sent again later than that, and clocks differ by no more. */
const SIGNED_MS_MAX = 5 * MINUTE_MS;

/** The setting of the tenant. @throws not_found as for an unknown path, where it has none. */
export const getDelegatedPayments = ({ caller }: Work): DelegatedPayments => {
  if (!caller.delegated_payments) throw new AppError('not_found', NO_PATH);
  return caller.delegated_payments;
};

/** JSON in the canonical form of RFC 8785. `sortedJson` puts names that are numbers first, which that form does not. */
const canonicalJson = (value: Json): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const names = Object.keys(value).toSorted((one, other) => (one < other ? -1 : 1));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name] as Json)}`).join(',')}}`;
};

type Signed = { signature: unknown; timestamp: unknown; body: Json | undefined };

/** Whether one of the keys has signed the body, and the time of the request is now. */
export const isSigned = (
  keys: NonNullable<DelegatedPayments['signing_keys']>,
  { signature, timestamp, body }: Signed,
  now: Date,
): boolean => {
  const at = typeof timestamp === 'string' ? parseDate(timestamp) : undefined;
  if (!at || Math.abs(at.getTime() - now.getTime()) > SIGNED_MS_MAX) return false;
  if (body === undefined) return false;
  return typeof signature === 'string' && isSignedBy(keys, signature, canonicalJson(body));
};

export type Delegated = { id: string; created: string; metadata: Record<string, string> };

const cardOf = ({ payment_method }: DelegatedCard): Json => {
  const { number, exp_month, exp_year, cvc, name } = payment_method;
  return {
    number,
    expiration_month: Number(exp_month),
    expiration_year: Number(exp_year),
    ...(cvc !== undefined && { cvc }),
    ...(name !== undefined && name !== '' && { cardholder_name: name }),
  };
};

/** Everything else of the request, which the processor may want: sealed as a token of its own beside the card. */
const detailsOf = ({ payment_method, billing_address, risk_signals }: DelegatedCard): Json => {
  const { number: _number, cvc: _cvc, exp_month: _month, exp_year: _year, ...others } = payment_method;
  return JSON.parse(JSON.stringify({ payment_method: others, billing_address, risk_signals })) as Json;
};

/** A card and its details as requests for tokens. */
const requestsOf = (card: DelegatedCard, { proxies, container }: DelegatedPayments, id: string, now: Date) => {
  const { max_amount, currency, merchant_id, checkout_session_id, expires_at } = card.allowance;
  const allowance = { max_amount, currency, merchant_id, checkout_session_id };
  const bound = { proxies, until: expires_at };
  const ends = Math.max(Date.parse(expires_at), now.getTime());
  const shared = {
    containers: [container ?? DELEGATED_CONTAINER],
    deduplicate_token: false,
    expires_at: new Date(ends + KEPT_AFTER_END_MS).toISOString(),
  };
  return [
    {
      ...shared,
      id,
      type: 'card',
      data: cardOf(card),
      metadata: { ...card.metadata, merchant_id },
      bound_to: { ...bound, max_uses: 1, allowance },
    },
    { ...shared, id: `${id}-details`, type: 'token', data: detailsOf(card), bound_to: bound },
  ];
};

/**
 * Makes a token of a card that an agent hands over. It costs one use, of at most the allowance, until its end.
 * @param work with the right to create tokens. @throws invalidInput at places of the token request; as createTokens.
 */
export const delegatePayment = async (
  ctx: TokensContext,
  work: Work,
  { card, settings, key }: { card: DelegatedCard; settings: DelegatedPayments; key: string },
): Promise<Delegated> => {
  const id = `vt_${randomBase62(ID_CHARACTERS, ctx.randomBytes)}`;
  const drafts: Draft[] = [];
  for (const request of requestsOf(card, settings, id, ctx.now())) {
    const problems = new FieldErrorCollector();
    const slices = parseTokenRequest(request as Record<string, Json>, [], problems, draftTools(ctx, work));
    const draft = await ctx.accounts.runInTurns(work.tenant_id, slices);
    if (!draft) throw invalidInput(problems.errors);
    drafts.push(draft);
  }
  const metadata = { ...card.metadata, merchant_id: card.allowance.merchant_id, idempotency_key: key };
  return createTokens(ctx, work, drafts, {
    answer: ([made]) => ({ id, created: made?.created_at ?? ctx.now().toISOString(), metadata }),
  }).catch((error: unknown) => {
    // The setting names a proxy that is not there any more: no fault of who asks.
    const isOfSetting = error instanceof AppError && error.fieldErrors?.some(({ path }) => path.includes('proxies'));
    throw isOfSetting ? unavailable(error) : error;
  });
};
