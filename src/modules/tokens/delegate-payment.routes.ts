// POST /agentic_commerce/delegate_payment of the Agentic Commerce Protocol: an agent hands over a card with an allowance.
// Its interface is the published one: flat errors, a bearer token, and no part of our OpenAPI document.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { workOf } from '../access/authenticate.ts';
import { DELEGATED_CONTAINER, type DelegatedPayments } from '../access/delegated-payments.ts';
import { keyOf } from '../access/idempotent-requests.ts';
import { logRefusal } from '../access/refusals.ts';
import {
  AppError,
  FieldErrorCollector,
  fieldErrors,
  invalidField,
  invalidInput,
  unauthorized,
  unavailable,
} from '../../platform/base/errors.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { sendProblem, toAppError } from '../../platform/http/problems.ts';
import { traceIdsOf } from '../../platform/http/trace.ts';
import { formatPath, type Json } from '../../platform/json/json.ts';
import type { TokensContext } from './context.ts';
import { z } from 'zod';
import type { Work } from '../access/work.ts';
import { DAY_MS, MINUTE_MS } from '../../platform/base/times.ts';
import { isSignedBy } from '../../platform/crypto/ed25519.ts';
import { randomBase62 } from '../../platform/crypto/digest.ts';
import { NO_PATH } from '../../platform/http/host.ts';
import { parseDate } from '../../platform/json/dates.ts';
import { createTokens } from './create-tokens.ts';
import { type Draft, parseTokenRequest } from './token-request.ts';
import { draftTools } from './tokens.ts';

// Makes the token of a delegated payment: a card that may be charged once, within an allowance, through the proxies of the tenant.

/** 154 bits: an agent cannot guess the id of another card. */
const ID_CHARACTERS = 26;

/** Until disputes and refunds of a charge have been asked for. Nothing uses the card after its allowance has ended. */
const KEPT_AFTER_END_MS = 30 * DAY_MS;

/** A signed request is not sent again later than that, and clocks differ by no more. */
const SIGNED_MS_MAX = 5 * MINUTE_MS;

/** The setting of the tenant. @throws not_found as for an unknown path, where it has none. */
const getDelegatedPayments = ({ caller }: Work): DelegatedPayments => {
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
const isSigned = (
  keys: NonNullable<DelegatedPayments['signing_keys']>,
  { signature, timestamp, body }: Signed,
  now: Date,
): boolean => {
  const at = typeof timestamp === 'string' ? parseDate(timestamp) : undefined;
  if (!at || Math.abs(at.getTime() - now.getTime()) > SIGNED_MS_MAX) return false;
  if (body === undefined) return false;
  return typeof signature === 'string' && isSignedBy(keys, signature, canonicalJson(body));
};

type Delegated = { id: string; created: string; metadata: Record<string, string> };

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
const delegatePayment = async (
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

// The request of POST /agentic_commerce/delegate_payment, as the Agentic Commerce Protocol publishes it.

/** Released versions of the protocol, the newest first. */
const apiVersions = ['2026-04-17', '2026-01-30', '2025-09-29'] as const;
type ApiVersion = (typeof apiVersions)[number];

const text = (most?: number) => {
  const error = most === undefined ? 'must be text' : `must be text of at most ${most} characters`;
  return most === undefined ? z.string(error) : z.string(error).max(most, error);
};

const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, `must be one of ${values.join(', ')}`);

const texts = z.record(z.string(), text(), 'must be an object of texts');

const object = <T extends z.ZodRawShape>(shape: T) =>
  z.strictObject(shape, {
    error: ({ code }) => (code === 'unrecognized_keys' ? 'has an attribute that is not known' : 'must be an object'),
  });

/** The first six digits of a card, and eight in the newest version. */
const iinLengthOf = (version: ApiVersion): number => (version === '2026-04-17' ? 8 : 6);

const lastFourOf = (version: ApiVersion) =>
  version === '2025-09-29' ? text(4) : z.string('must be 4 digits').regex(/^[0-9]{4}$/, 'must be 4 digits');

const cardSchema = (version: ApiVersion) =>
  object({
    type: z.literal('card', 'must be card'),
    card_number_type: oneOf(['fpan', 'network_token']),
    number: text(),
    exp_month: text(2).optional(),
    exp_year: text(4).optional(),
    name: text().optional(),
    cvc: text(4).optional(),
    cryptogram: text().optional(),
    eci_value: text(2).optional(),
    checks_performed: z.array(oneOf(['avs', 'cvv', 'ani', 'auth0']), 'must be a list').optional(),
    iin: text(iinLengthOf(version)).optional(),
    display_card_funding_type: oneOf(['credit', 'debit', 'prepaid']),
    display_wallet_type: text().optional(),
    display_brand: text().optional(),
    display_last4: lastFourOf(version).optional(),
    metadata: texts,
    virtual: z.boolean('must be true or false').optional(),
  });

const allowance = object({
  reason: z.literal('one_time', 'must be one_time'),
  max_amount: z.int('must be a whole number in minor units'),
  currency: z
    .string('must be a currency in small letters')
    .regex(/^[a-z]{3}$/, 'must be a currency of three small letters'),
  checkout_session_id: text(),
  merchant_id: text(256),
  expires_at: z.iso.datetime({ offset: true, error: 'must be a time such as 2030-09-27T19:23:57Z' }),
});

const address = object({
  name: text(256),
  line_one: text(60),
  line_two: text(60).optional(),
  city: text(60),
  state: text(),
  country: z.string('must be two letters').length(2, 'must be two letters'),
  postal_code: text(20),
});

const riskSignal = object({
  type: z.literal('card_testing', 'must be card_testing'),
  score: z.int('must be a whole number'),
  action: oneOf(['blocked', 'manual_review', 'authorized']),
});

const risksOf = (version: ApiVersion) => {
  const list = z.array(riskSignal, 'must be a list');
  return version === '2026-04-17' ? list : list.min(1, 'must have at least one');
};

const requestOf = (version: ApiVersion) =>
  object({
    payment_method: cardSchema(version),
    allowance,
    billing_address: address.optional(),
    risk_signals: risksOf(version),
    metadata: texts,
  });

type DelegatedCard = z.output<ReturnType<typeof requestOf>>;

const delegatedCardOf: Record<ApiVersion, ReturnType<typeof requestOf>> = {
  '2025-09-29': requestOf('2025-09-29'),
  '2026-01-30': requestOf('2026-01-30'),
  '2026-04-17': requestOf('2026-04-17'),
};

const PATH = '/agentic_commerce/delegate_payment';

declare module 'fastify' {
  interface FastifyRequest {
    /** The setting of the tenant, on this route. */
    delegated: DelegatedPayments | undefined;
  }
}

// --- Errors ---

type FlatError = { type: string; code: string; message: string; param?: string; supported_versions?: string[] };

/** Paths in a request for a token, with the paths of the same data in the caller's request. */
const places: [RegExp, string][] = [
  [/^data\.number$/, '$.payment_method.number'],
  [/^data\.expiration_month$/, '$.payment_method.exp_month'],
  [/^data\.expiration_year$/, '$.payment_method.exp_year'],
  [/^data\.cardholder_name$/, '$.payment_method.name'],
  [/^data\.cvc$/, '$.payment_method.cvc'],
  [/^data\b.*/, '$.payment_method'],
  [/^bound_to\.until$/, '$.allowance.expires_at'],
  [/^bound_to\.allowance\b/, '$.allowance'],
];

const paramOf = (path: string): string => {
  const found = places.find(([form]) => form.test(path));
  return found ? path.replace(...found) : path === '' ? '$' : `$.${path}`;
};

const codes: Record<string, string> = {
  idempotency_in_progress: 'idempotency_in_flight',
  idempotency_key_reused: 'idempotency_conflict',
  too_many_requests: 'too_many_requests',
};

const typeOf = ({ status }: AppError): string => {
  if (status === 429) return 'rate_limit_exceeded';
  if (status === 503) return 'service_unavailable';
  return status >= 500 ? 'processing_error' : 'invalid_request';
};

const KEY_NEEDED = 'idempotency_key_required';
const VERSION_NEEDED = 'unsupported_api_version';

/** Errors that only this interface has, by the place of their header. */
const headerCodes: Record<string, string> = { 'Idempotency-Key': KEY_NEEDED, 'API-Version': VERSION_NEEDED };

const flatError = (error: AppError): FlatError => {
  const [first] = error.fieldErrors ?? [];
  const ofHeader = first && headerCodes[first.path];
  const type = typeOf(error);
  if (first && ofHeader !== undefined) {
    const versions = ofHeader === VERSION_NEEDED && { supported_versions: [...apiVersions] };
    return { type, code: ofHeader, message: `${first.path} ${first.sentence}.`, ...versions };
  }
  if (!first) return { type, code: codes[error.problemCode] ?? error.problemCode, message: error.message };
  const param = paramOf(first.path);
  const code = param.startsWith('$.payment_method') ? 'invalid_card' : 'invalid_request';
  return { type, code, message: `${param} ${first.sentence}.`, param };
};

const sendFlat = (reply: FastifyReply, error: AppError): FastifyReply => {
  if (error.status === 401) reply.header('www-authenticate', 'Bearer');
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', String(error.retryAfterSeconds));
  return reply
    .status(error.status)
    .type('application/json')
    .send(JSON.stringify(flatError(error)));
};

// --- Requests ---

const versionOf = ({ headers }: FastifyRequest): ApiVersion => {
  const version = apiVersions.find((each) => each === headers['api-version']);
  if (version === undefined) throw invalidField('API-Version', `must be one of ${apiVersions.join(', ')}`);
  return version;
};

const idempotencyKeyOf = (request: FastifyRequest): string => {
  const key = keyOf(request, ['idempotency-key']);
  if (key === undefined) throw invalidField('Idempotency-Key', 'header is required', 'required');
  return key;
};

/** All that is known before the body is read. The caller may do nothing else: here it makes a token. */
const admit = async (request: FastifyRequest): Promise<void> => {
  const work = workOf(request);
  request.delegated = getDelegatedPayments(work);
  versionOf(request);
  idempotencyKeyOf(request);
  request.work = work.withRights({ permissions: new Set(['token:create']), rules: [] });
};

const checkSignature = async (ctx: TokensContext, request: FastifyRequest): Promise<void> => {
  const keys = request.delegated?.signing_keys;
  const { signature, timestamp } = request.headers;
  if (keys && !isSigned(keys, { signature, timestamp, body: request.body as Json | undefined }, ctx.now()))
    throw unauthorized();
};

const handle = async (ctx: TokensContext, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
  const parsed = delegatedCardOf[versionOf(request)].safeParse(request.body);
  if (!parsed.success)
    throw invalidInput(
      fieldErrors(parsed.error.issues.map(({ path, message }) => [formatPath(path as (string | number)[]), message])),
    );
  const about = { card: parsed.data, settings: request.delegated as DelegatedPayments, key: idempotencyKeyOf(request) };
  return answer(reply, await delegatePayment(ctx, workOf(request), about));
};

export const delegatePaymentRoutes = async (app: App, ctx: TokensContext): Promise<void> => {
  app.decorateRequest('delegated', undefined);
  await app.register(async (scope: App) => {
    scope.setErrorHandler(async (thrown, request, reply) => {
      const error = toAppError(thrown, ctx.config.bodyBytesMax);
      await logRefusal(ctx, request, error);
      if (error.status >= 500)
        request.log.error({ ...traceIdsOf(request), error, code: error.code }, 'a request failed');
      // A tenant without the setting has no such path.
      return error.code === 'not_found' ? sendProblem(reply, error) : sendFlat(reply, error);
    });
    scope.addHook('onRequest', admit);
    scope.addHook('preValidation', (request) => checkSignature(ctx, request));
    scope.addHook('onSend', async (_request, reply) => {
      if (reply.getHeader('svc-idempotent-replayed') === 'true') reply.header('idempotent-replayed', 'true');
    });
    scope.route({
      method: 'POST',
      url: PATH,
      config: { permission: 'delegation:create', takesBearer: true, idempotency: 'semantic', creates: '/tokens' },
      schema: { hide: true },
      handler: (request, reply) => handle(ctx, request, reply),
    });
  });
};
