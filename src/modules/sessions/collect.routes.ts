// GET and POST /collect/:secret: a page of the vault that collects data without a script, and leads back to the merchant.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sessionPageDigest } from '../../platform/crypto/digest.ts';
import { AppError } from '../../platform/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { fieldOf, formOf, sendPage } from '../../platform/http/pages.ts';
import type { Json } from '../../platform/json/json.ts';
import { originOf } from '../access/authenticate.ts';
import { createFailureCount } from '../access/failures.ts';
import { Work } from '../access/work.ts';
import { createToken } from '../tokens/create-tokens.ts';
import { findTokenType } from '../tokens/token-types.ts';
import { fieldsOf, readForm } from './collect-form.ts';
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

export const collectRoutes = (scope: App, ctx: SessionsContext): void => {
  const digestOf = ({ params }: FastifyRequest): Buffer =>
    sessionPageDigest(ctx.pepper, (params as { secret: string }).secret);

  const find = async (request: FastifyRequest): Promise<PageSession | undefined> => {
    const session = await findPageSessionBeforeCaller(ctx.db, digestOf(request));
    return session && session.expires_at > ctx.now() ? session : undefined;
  };

  const show = (reply: FastifyReply, status: number, session: PageSession, problems: Record<string, string>) => {
    reply.header('content-security-policy', policyOf(new URL(session.return_url).origin));
    return sendPage(reply, status, collectPage(session, problems));
  };

  const countFailure = createFailureCount(ctx, 'collect_link_from');

  const dead = async (request: FastifyRequest, reply: FastifyReply) => {
    await countFailure(request.ip);
    return sendPage(reply, 410, deadCollectPage(request.id));
  };

  scope.get('/collect/:secret', open, async (request, reply) => {
    const session = await find(request);
    return session ? show(reply, 200, session, {}) : dead(request, reply);
  });

  scope.post('/collect/:secret', open, async (request, reply) => {
    const session = await find(request);
    if (!session) return dead(request, reply);
    const type = session.types[0] ?? '';
    const form = formOf(request);
    const typed = Object.fromEntries(fieldsOf(type).map(({ name }) => [name, fieldOf(form, name)]));
    const check = (data: Json): string[] =>
      findTokenType(type)
        ?.data.safeParse(data)
        .error?.issues.map(({ path }) => String(path[0] ?? '')) ?? [];
    const read = readForm(type, typed, ctx.now(), check);
    if ('problems' in read) return show(reply, 422, session, read.problems);
    const caller = ctx.callers.callerOfSession(session, { page_digest: digestOf(request) });
    const work = new Work(ctx, caller, { origin: originOf(request) });
    try {
      await createToken(ctx, work, { request: { type, data: read.data } });
    } catch (error) {
      // Another request used the page meanwhile, or the session has created all its tokens.
      if (error instanceof AppError && error.code === 'forbidden') return dead(request, reply);
      throw error;
    }
    const back = new URL(session.return_url);
    back.searchParams.set('session', session.id);
    return reply.redirect(back.href, 303);
  });
};
