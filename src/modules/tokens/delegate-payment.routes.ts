// POST /agentic_commerce/delegate_payment of the Agentic Commerce Protocol: an agent hands over a card with an allowance.
// Its interface is the published one: flat errors, a bearer token, and no part of our OpenAPI document.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { workOf } from '../access/authenticate.ts';
import type { DelegatedPayments } from '../access/delegated-payments.ts';
import { keyOf } from '../access/idempotent-requests.ts';
import { logRefusal } from '../access/refusals.ts';
import { AppError, fieldErrors, invalidField, invalidInput, unauthorized } from '../../platform/base/errors.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { sendProblem, toAppError } from '../../platform/http/problems.ts';
import { traceIdsOf } from '../../platform/http/trace.ts';
import { formatPath, type Json } from '../../platform/json/json.ts';
import type { TokensContext } from './context.ts';
import { delegatePayment, getDelegatedPayments, isSigned } from './delegate-payment.ts';
import { type ApiVersion, apiVersions, delegatedCardOf } from './delegated-card.schema.ts';

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
