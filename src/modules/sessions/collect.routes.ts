// GET and POST /collect/:secret: a page of the vault that collects data without a script, and leads back to the merchant.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sessionPageDigest } from '../../platform/crypto/digest.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { fieldOf, formOf, sendPage } from '../../platform/http/pages.ts';
import type { Json } from '../../platform/json/json.ts';
import { originFor } from '../access/authenticate.ts';
import { createFailureCount } from '../access/failures.ts';
import { Work } from '../access/work.ts';
import { createToken } from '../tokens/create-tokens.ts';
import { findTokenType } from '../tokens/token-types.ts';
import { codeLengthOf, collectCode, findCard, type OpenedCard, showLastFour } from '../tokens/security-codes.ts';
import { fieldsOf, readCode, readForm } from './collect-form.ts';
import { collectPage, deadCollectPage } from './collect.page.ts';
import type { SessionsContext } from './context.ts';
import { findPageSessionBeforeCaller, type PageSession } from './rows.ts';

const open = { config: { permission: null }, schema: { hide: true } } as const;

/** No script at all. Browsers check form-action for the redirect too. */
const policyOf = (returnOrigin: string): string =>
  [
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self' data:",
    `form-action 'self' ${returnOrigin}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');

/** A session, with the card whose security code it collects. */
type Found = { session: PageSession; card: OpenedCard | undefined };

export const collectRoutes = (scope: App, ctx: SessionsContext): void => {
  const digestOf = ({ params }: FastifyRequest): Buffer =>
    sessionPageDigest(ctx.pepper, (params as { secret: string }).secret);

  /** Where the card is gone, the page is no longer valid. */
  const find = async (request: FastifyRequest): Promise<Found | undefined> => {
    const session = await findPageSessionBeforeCaller(ctx.db, digestOf(request));
    if (!session || session.expires_at <= ctx.now()) return undefined;
    const { tenant_id, token_id } = session;
    if (token_id === null) return { session, card: undefined };
    const card = await findCard(ctx, { tenant_id, token_id });
    return card && { session, card };
  };

  const workOf = (request: FastifyRequest, session: PageSession): Work => {
    const caller = ctx.callers.callerOfSession(session, { page_digest: digestOf(request) });
    const origin = originFor(request, caller);
    request.usage ??= ctx.usage.begin(caller.tenant_id, origin.application_id);
    return new Work(ctx, caller, { origin, usage: request.usage });
  };

  const show = async (
    request: FastifyRequest,
    reply: FastifyReply,
    status: number,
    { session, card }: Found,
    problems: Record<string, string>,
  ): Promise<FastifyReply> => {
    const lastFour = card && (await showLastFour(ctx, workOf(request, session), ctx.callers.creatorOf(session), card));
    reply.header('content-security-policy', policyOf(new URL(session.return_url).origin));
    return sendPage(reply, status, collectPage(session, problems, lastFour));
  };

  const countFailure = createFailureCount(ctx, 'collect_link_from');

  const dead = async (request: FastifyRequest, reply: FastifyReply) => {
    await countFailure(request.ip);
    return sendPage(reply, 410, deadCollectPage(request.id));
  };

  scope.get('/collect/:secret', open, async (request, reply) => {
    const found = await find(request);
    return found ? show(request, reply, 200, found, {}) : dead(request, reply);
  });

  scope.post('/collect/:secret', open, async (request, reply) => {
    const found = await find(request);
    if (!found) return dead(request, reply);
    const { session, card } = found;
    const type = session.types[0] ?? '';
    const form = formOf(request);
    const typed = Object.fromEntries(fieldsOf(type).map(({ name }) => [name, fieldOf(form, name)]));
    const check = (data: Json): string[] =>
      findTokenType(type)
        ?.data.safeParse(data)
        .error?.issues.map(({ path }) => String(path[0] ?? '')) ?? [];
    const read = card ? readCode(typed, codeLengthOf(card)) : readForm(type, typed, ctx.now(), check);
    if ('problems' in read) return show(request, reply, 422, found, read.problems);
    const work = workOf(request, session);
    try {
      if (session.token_id !== null)
        await collectCode(ctx, work, { token_id: session.token_id, cvc: read.data as string });
      else await createToken(ctx, work, { request: { type, data: read.data } });
    } catch (error) {
      // Another request used the page meanwhile, the session has created all its tokens, or the card is gone.
      if (error instanceof AppError && (error.code === 'forbidden' || error.code === 'not_found'))
        return dead(request, reply);
      throw error;
    }
    const back = new URL(session.return_url);
    back.searchParams.set('session', session.id);
    return reply.redirect(back.href, 303);
  });
};
