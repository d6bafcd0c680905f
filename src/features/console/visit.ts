// How a page of the console is asked for: by a member with a session, who is sent to sign in where there is none. What a page
// shows and does goes through the public API under the member's role; nothing here reaches a rule of the vault.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { AppError, badRequest } from '../../errors.ts';
import type { App } from '../../http/app-type.ts';
import type { Authentication } from '../../http/authenticate.ts';
import { fieldOf, formOf, sendPage } from '../../http/pages.ts';
import { readSessionSecret } from '../../http/session-cookie.ts';
import { isCsrfToken, revealing, type Session } from '../../people/sessions.ts';
import { keptPage } from './kept-page.ts';

/** What the API answered. `body` is parsed JSON, undefined where there was none. */
export type ApiAnswer = { status: number; headers: Record<string, unknown>; body: unknown; ms: number };

export type ApiRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query. */
  url: string;
  headers?: Record<string, string>;
  json?: unknown;
  /**
   * For deeds that are measured by all that somebody holds, such as code for an application: that pages show tokens masked
   * takes nothing from what a member may. Not for what shows tokens.
   */
  withAllGrants?: true;
};

/** A member's look at a page. */
export type Visit = {
  ctx: Context;
  session: Session;
  request: FastifyRequest;
  reply: FastifyReply;
  /** A parameter of the page's query, given once; empty where it is missing. */
  query(name: string): string;
  /** A part of the page's path. */
  param(name: string): string;
  /** Asks the public API as the member. Refusals are answers too. */
  api(request: ApiRequest): Promise<ApiAnswer>;
};

/** A form that a member sent. */
export type Deed = Visit & { field(name: string): string };

/** A page, or where to go instead: after a deed the browser asks for a page anew, so that a reload does nothing twice. */
export type Outcome = string | { seeOther: string } | { status: number; page: string };

export type Console = {
  ctx: Context;
  authentication: Authentication;
  /** A page. */
  get(path: string, show: (visit: Visit) => Promise<Outcome>): void;
  /**
   * What a form does. Its CSRF token is checked before.
   * @param keeps the fields that are given back, to be copied, where the session has ended meanwhile.
   */
  post(path: string, act: (deed: Deed) => Promise<Outcome>, keeps?: readonly string[]): void;
};

/** The sentences of a problem, to be shown beside a form. */
export const problemLines = ({ status, body }: ApiAnswer): string[] => {
  const { title, detail, errors } = (body ?? {}) as {
    title?: string;
    detail?: string;
    errors?: Record<string, string[]>;
  };
  const lines = Object.entries(errors ?? {}).flatMap(([place, sentences]) =>
    sentences.map((sentence) => (place === '' || place === 'error' ? sentence : `${place}: ${sentence}`)),
  );
  if (lines.length > 0) return detail === undefined ? lines : [detail, ...lines];
  return [detail ?? title ?? `The answer was ${status}.`];
};

export const isSuccess = ({ status }: ApiAnswer): boolean => status >= 200 && status < 300;

/** The body of an answer that a page cannot do without. @throws AppError, told as a page. */
export const bodyOf = <T>(answer: ApiAnswer): T => {
  if (isSuccess(answer)) return answer.body as T;
  const [sentence = ''] = problemLines(answer);
  const codes: Record<number, 'not_found' | 'forbidden' | 'too_many_requests' | 'unavailable' | 'bad_request'> = {
    403: 'forbidden',
    404: 'not_found',
    429: 'too_many_requests',
    503: 'unavailable',
  };
  const code = codes[answer.status] ?? (answer.status >= 500 ? 'internal' : 'bad_request');
  throw new AppError(code, sentence);
};

const open = { config: { permission: null }, schema: { hide: true } } as const;

const parseBody = (headers: Record<string, unknown>, text: string): unknown =>
  /json/.test(String(headers['content-type'])) && text !== '' ? (JSON.parse(text) as unknown) : undefined;

const signedOut = { heading: 'You are signed out', again: { path: '/console/sign-in', label: 'Sign in' } };

const noLongerValid = ({ url }: FastifyRequest) => ({
  heading: 'This form is no longer valid',
  again: { path: url, label: 'Open the page again' },
});

/** @param scope of pages (http/pages.ts). */
export const openConsole = (scope: App, ctx: Context, authentication: Authentication): Console => {
  const visitOf = (request: FastifyRequest, reply: FastifyReply, session: Session): Visit => ({
    ctx,
    session,
    request,
    reply,
    query: (name) => {
      const value = (request.query as Record<string, unknown>)[name];
      if (value === undefined) return '';
      if (typeof value !== 'string') throw badRequest(`The parameter ${name} must be given once.`);
      return value;
    },
    param: (name) => (request.params as Record<string, string>)[name] ?? '',
    api: async ({ method, url, headers, json, withAllGrants }) => {
      const began = performance.now();
      const answer = await authentication.actAs(withAllGrants ? revealing(session.caller) : session.caller, request, {
        method,
        url,
        headers: { ...(json !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(json !== undefined && { payload: JSON.stringify(json) }),
      });
      return {
        status: answer.statusCode,
        headers: answer.headers,
        body: parseBody(answer.headers, answer.payload),
        ms: performance.now() - began,
      };
    },
  });

  const send = (reply: FastifyReply, outcome: Outcome): FastifyReply => {
    if (typeof outcome === 'string') return sendPage(reply, 200, outcome);
    return 'page' in outcome ? sendPage(reply, outcome.status, outcome.page) : reply.redirect(outcome.seeOther, 303);
  };

  const sessionOf = async (request: FastifyRequest): Promise<Session | undefined> => {
    const secret = readSessionSecret(ctx, request);
    return secret === undefined ? undefined : ctx.sessions.find(secret);
  };

  const toSignIn = (request: FastifyRequest): Outcome => {
    const next = request.method === 'GET' ? `?${new URLSearchParams({ next: request.url }).toString()}` : '';
    return { seeOther: `/console/sign-in${next}` };
  };

  return {
    ctx,
    authentication,
    get: (path, show) => {
      scope.get(path, open, async (request, reply) => {
        const session = await sessionOf(request);
        return send(reply, session ? await show(visitOf(request, reply, session)) : toSignIn(request));
      });
    },
    post: (path, act, keeps = []) => {
      scope.post(path, open, async (request, reply) => {
        const session = await sessionOf(request);
        const form = formOf(request);
        if (!session) {
          const page = keptPage(form, keeps, signedOut);
          return send(reply, page === undefined ? toSignIn(request) : { status: 401, page });
        }
        if (!isCsrfToken(session, fieldOf(form, 'csrf'))) {
          const page = keptPage(form, keeps, noLongerValid(request));
          if (page !== undefined) return send(reply, { status: 403, page });
          throw new AppError('forbidden', 'This form is no longer valid. Open the page again and send it from there.');
        }
        return send(reply, await act({ ...visitOf(request, reply, session), field: (name) => fieldOf(form, name) }));
      });
    },
  };
};
