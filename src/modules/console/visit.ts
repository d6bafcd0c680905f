// Registers console pages: finds the session, checks CSRF tokens, and calls the public API under the member's role.
import type { FastifyReply, FastifyRequest, LightMyRequestResponse } from 'fastify';
import { AppError, badRequest } from '../../platform/base/errors.ts';
import { findOperation } from '../../platform/base/event-loop.ts';
import { type LoggedToken, tokenListLogRow, tokenLogRows } from '../../platform/db/audit-record.ts';
import type { App } from '../../platform/http/app-type.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { brand, failureText, fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { readSessionSecret } from '../../platform/http/session-cookie.ts';
import { type ActingRequest, type Authentication, originOf, StepUpNeeded } from '../access/authenticate.ts';
import type { Permission } from '../access/permissions.ts';
import type { RevealReason } from '../access/reveal-reason.ts';
import type { PeopleContext } from '../people/context.ts';
import { needsStepUp } from '../people/second-factor.ts';
import { isCsrfToken, revealing, type Session } from '../people/sessions.ts';
import { consolePage, may, permissionOfPage } from './shell.ts';

// A page with the text of a form that was refused because its session or CSRF token is no longer valid.
// The member can copy the text. Nothing is stored.

const area = (name: string, text: string): Html =>
  html`<label><span class="mono">${name}</span><textarea class="code" rows="12" readonly spellcheck="false">\n${text}</textarea></label>`;

/**
 * @param names of the fields that are shown.
 * @param again the link to continue with.
 * @returns undefined if these fields were empty.
 */
const keptPage = (
  form: URLSearchParams,
  names: readonly string[],
  { heading, again }: { heading: string; again: { path: string; label: string } },
): string | undefined => {
  const kept = names.map((name) => [name, fieldOf(form, name)] as const).filter(([, text]) => text !== '');
  if (kept.length === 0) return undefined;
  return pageOf({
    title: heading,
    main: html`${brand}
<h1>${heading}</h1>
<p>Nothing was saved and nothing was run. What you typed is below: copy it before you go on.</p>
${kept.map(([name, text]) => area(name, text))}
<p><a class="button" href="${again.path}">${again.label}</a></p>`,
  });
};

/** A response of the API. `body` is parsed JSON, undefined without JSON. */
export type ApiAnswer = { status: number; headers: Record<string, unknown>; body: unknown; ms: number };

type ApiRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  url: string;
  headers?: Record<string, string>;
  json?: unknown;
  /**
   * Without the masks of console pages, for a role that may see values. For requests whose permission check compares rights, such
   * as to set code: a member may pass on all its rights. Never for requests that show tokens.
   */
  withAllGrants?: true;
};

/** A request of a member for a page. */
export type Visit = {
  ctx: PeopleContext;
  session: Session;
  request: FastifyRequest;
  reply: FastifyReply;
  /** Address at which the member gives the second factor before something sensitive; undefined if that is fresh. */
  stepUp: string | undefined;
  /** A query parameter; empty if missing. @throws badRequest if it is repeated. */
  query(name: string): string;
  /** A parameter of the page's path. */
  param(name: string): string;
  /** Calls the public API as the member. A refusal is a normal result. A sensitive operation may lead to the second factor first. */
  api(request: ApiRequest): Promise<ApiAnswer>;
  /**
   * Calls like `api`, for responses that are not read as JSON.
   * @param isRevealing for one request under a rule that reveals, where the role may see values.
   * @param reason without which nothing is shown where the tenant asks for it.
   */
  actAs(asked: ActingRequest, isRevealing?: true, reason?: RevealReason): Promise<LightMyRequestResponse>;
};

/** A form that a member submitted. */
export type Submission = Visit & { field(name: string): string };

/** A page or a redirect. After a change the browser is redirected, so that a reload does not repeat it. */
export type Outcome =
  | string
  | { seeOther: string }
  | { status: number; page: string }
  /** A stream of the API as a file. */
  | { file: LightMyRequestResponse; name: string };

type FormAction = (submission: Submission) => Promise<Outcome>;

export type Console = {
  ctx: PeopleContext;
  get(path: string, show: (visit: Visit) => Promise<Outcome>): void;
  /**
   * Handles a form. Its CSRF token is checked before.
   * @param keeps the fields whose text is shown again if the session has ended.
   */
  post(path: string, act: FormAction, keeps?: readonly string[]): void;
  /** Handles like `post`, for a form that a script of its page sends while one types. It changes nothing. */
  postFetched(path: string, act: FormAction): void;
  /**
   * Handles like `post`, for what a member with a second factor may do only a few minutes after giving it. The API asks for it in
   * any case: this asks before anything is done, and for what is no call of the API.
   */
  postAfterCode(path: string, act: FormAction, keeps?: readonly string[]): void;
};

/** Error sentences, each after its place. */
export const errorLines = (errors: Record<string, string[]>): string[] =>
  Object.entries(errors).flatMap(([place, sentences]) =>
    sentences.map((sentence) => (place === '' || place === 'error' ? sentence : `${place}: ${sentence}`)),
  );

/** The error sentences of a problem, to be shown with a form. */
export const problemLines = ({ status, body }: ApiAnswer): string[] => {
  const { title, detail, errors } = (body ?? {}) as {
    title?: string;
    detail?: string;
    errors?: Record<string, string[]>;
  };
  const lines = errorLines(errors ?? {});
  if (lines.length > 0) return detail === undefined ? lines : [detail, ...lines];
  return [detail ?? title ?? `The API responded with status ${status}.`];
};

export const isSuccess = ({ status }: ApiAnswer): boolean => status >= 200 && status < 300;

/** The body of a successful response. @throws AppError otherwise, which is shown as an error page. */
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

export const CODE_PATH = '/console/second-factor';

export const PASSKEY_CODE_PATH = `${CODE_PATH}/passkey`;

export const ACCOUNT_PATH = '/console/account';

/** Path at which a member proves again, at the provider, who they are. */
export const SSO_AGAIN_PATH = '/console/sso/again';

/** What members can open before they have given, or set up, the second factor. */
const openWhile: Record<'code' | 'device', (path: string) => boolean> = {
  code: (path) => [CODE_PATH, PASSKEY_CODE_PATH, '/console/sign-out'].includes(path),
  device: (path) =>
    path === ACCOUNT_PATH ||
    path.startsWith(`${ACCOUNT_PATH}/`) ||
    ['/console/password', '/console/tenant', '/console/sign-out', SSO_AGAIN_PATH].includes(path),
};

const toPage = (path: string, { url }: FastifyRequest): string =>
  `${path}?${new URLSearchParams({ next: url }).toString()}`;

const toCode = (request: FastifyRequest): string => toPage(CODE_PATH, request);

/** Address at which a member proves again who they are, before a sensitive operation. */
const toStepUp = (request: FastifyRequest, { sso, hasDevice }: Session): string =>
  toPage(sso && !hasDevice ? SSO_AGAIN_PATH : CODE_PATH, request);

/** Address that a member must open first; undefined for none. */
const detourOf = (request: FastifyRequest, { pending }: Session): string | undefined => {
  if (pending === undefined || openWhile[pending](request.routeOptions.url ?? '')) return undefined;
  return pending === 'code' ? toCode(request) : ACCOUNT_PATH;
};

export const SIGN_IN_PATH = '/console/sign-in';

/** Nothing is asked of the API, so looking around is no refusal in the log. */
const notOpened = ({ role }: Session, permission: Permission): AppError =>
  new AppError('forbidden', `Your role ${role} does not open this page. It needs the permission ${permission}.`);

/** A member, and what takes the tokens of the page. */
type Acting = { session: Session; gather: (tokens: readonly LoggedToken[]) => void };

const signedOut = { heading: 'You are signed out', again: { path: SIGN_IN_PATH, label: 'Sign in' } };

const noLongerValid = ({ url }: FastifyRequest) => ({
  heading: 'This form is no longer valid',
  again: { path: url, label: 'Open the page again' },
});

/** The stream ends in the API too where the browser leaves. */
const sendFile = (
  reply: FastifyReply,
  { file, name }: { file: LightMyRequestResponse; name: string },
): FastifyReply => {
  const stream = file.stream();
  stream.once('close', () => (file.raw.res as unknown as { destroy(): void }).destroy());
  return reply
    .type(String(file.headers['content-type']))
    .header('content-disposition', `attachment; filename="${name}"`)
    .send(stream);
};

/** What every page needs. */
type Door = { ctx: PeopleContext; authentication: Authentication };

const actAs = (
  { ctx, authentication }: Door,
  request: FastifyRequest,
  { session, gather }: Acting,
  asked: ActingRequest,
  isRevealing?: boolean,
  reason?: RevealReason,
): Promise<LightMyRequestResponse> => {
  const isFresh = !needsStepUp(ctx, session);
  const actor = isRevealing ? { caller: revealing(session), reason } : { caller: session.caller, gather };
  return authentication.actAs({ ...actor, isFresh }, request, asked);
};

const visitOf = (door: Door, request: FastifyRequest, reply: FastifyReply, acting: Acting): Visit => ({
  ctx: door.ctx,
  session: acting.session,
  request,
  reply,
  stepUp: needsStepUp(door.ctx, acting.session) ? toStepUp(request, acting.session) : undefined,
  query: (name) => {
    const value = (request.query as Record<string, unknown>)[name];
    if (value === undefined) return '';
    if (typeof value !== 'string') throw badRequest(`The parameter ${name} must be given once.`);
    return value;
  },
  param: (name) => (request.params as Record<string, string>)[name] ?? '',
  api: async ({ method, url, headers, json, withAllGrants }) => {
    const began = performance.now();
    const asked = {
      method,
      url,
      headers: { ...(json !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(json !== undefined && { payload: JSON.stringify(json) }),
    };
    const answer = await actAs(door, request, acting, asked, withAllGrants);
    return {
      status: answer.statusCode,
      headers: answer.headers,
      body: parseBody(answer.headers, answer.payload),
      ms: performance.now() - began,
    };
  },
  actAs: (asked, isRevealing, reason) => actAs(door, request, acting, asked, isRevealing, reason),
});

/** Does the work of a page, and writes one row for all tokens that it read masked: before the page leaves. @throws unavailable. */
const withOneRow = async <T>(
  { ctx }: Door,
  request: FastifyRequest,
  session: Session,
  work: (acting: Acting) => Promise<T>,
): Promise<T> => {
  const shown = new Map<string, LoggedToken>();
  const gather: Acting['gather'] = (tokens) => tokens.forEach((token) => shown.set(token.id, token));
  try {
    return await work({ session, gather });
  } finally {
    const { caller } = session;
    const tokens = [...shown.values()];
    const actor = { actor_id: caller.actor_id, actor_type: 'user' as const, origin: originOf(request) };
    const rows = tokens.length > 1 ? [tokenListLogRow(ctx, actor, tokens)] : tokenLogRows(ctx, actor, 'read', tokens);
    if (rows.length > 0) await ctx.db.for(caller).insertLogs(rows);
  }
};

const send = (reply: FastifyReply, outcome: Outcome): FastifyReply => {
  if (typeof outcome === 'string') return sendPage(reply, 200, outcome);
  if ('file' in outcome) return sendFile(reply, outcome);
  return 'page' in outcome ? sendPage(reply, outcome.status, outcome.page) : reply.redirect(outcome.seeOther, 303);
};

const sessionOf = async ({ ctx }: Door, request: FastifyRequest): Promise<Session | undefined> => {
  const secret = readSessionSecret(ctx, request);
  const session = secret === undefined ? undefined : await ctx.sessions.find(secret);
  // A page counts for the tenant of the member.
  request.account = session?.caller.tenant_id;
  if (session) findOperation()?.rename(session.caller.tenant_id);
  return session;
};

const toSignIn = (request: FastifyRequest): Outcome => {
  const next = request.method === 'GET' ? `?${new URLSearchParams({ next: request.url }).toString()}` : '';
  return { seeOther: `${SIGN_IN_PATH}${next}` };
};

/** Pages let the refusal pass, so that it ends here. */
const stepUpOr = (error: unknown): StepUpNeeded => {
  if (error instanceof StepUpNeeded) return error;
  throw error;
};

/** A refusal of a member who is signed in has the menu. Other failures go on to the page without it, and into the log. */
const refusalOr = (error: unknown, request: FastifyRequest, session: Session): Outcome => {
  if (!(error instanceof AppError) || ![403, 404].includes(error.status) || session.pending !== undefined) throw error;
  const main = failureText(error, request);
  return { status: error.status, page: consolePage(session, { title: 'Not possible', section: 'None', main }) };
};

/** Does the work of a page for a member who may open it. @returns where the member must go first, or what is shown. */
const outcomeFor = async (
  door: Door,
  [request, reply, session]: [FastifyRequest, FastifyReply, Session],
  act: (visit: Visit) => Promise<Outcome>,
): Promise<Outcome | StepUpNeeded> =>
  withOneRow(door, request, session, (acting) => act(visitOf(door, request, reply, acting)))
    .catch(stepUpOr)
    .catch((error: unknown) => refusalOr(error, request, session));

type FormOptions = { act: FormAction; keeps?: readonly string[] | undefined; isSensitive?: true; isFetched?: true };

const takeForm = async (
  door: Door,
  { act, keeps = [], isSensitive }: FormOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> => {
  const session = await sessionOf(door, request);
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
  const leadTo = (first: string): FastifyReply => {
    const page = keptPage(form, keeps, {
      heading: session.hasDevice ? 'Your second factor is needed' : 'Sign in again first',
      again: { path: first, label: 'Continue' },
    });
    return send(reply, page === undefined ? { seeOther: first } : { status: 403, page });
  };
  const detour = detourOf(request, session);
  if (detour !== undefined) return leadTo(detour);
  if (isSensitive && needsStepUp(door.ctx, session)) return leadTo(toStepUp(request, session));
  const field = (name: string) => fieldOf(form, name);
  const outcome = await outcomeFor(door, [request, reply, session], (visit) => act({ ...visit, field }));
  return outcome instanceof StepUpNeeded ? leadTo(toStepUp(request, session)) : send(reply, outcome);
};

const showPage = async (
  door: Door,
  { needed, show }: { needed: Permission | undefined; show: (visit: Visit) => Promise<Outcome> },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> => {
  const session = await sessionOf(door, request);
  if (!session) return send(reply, toSignIn(request));
  const first = detourOf(request, session);
  if (first !== undefined) return send(reply, { seeOther: first });
  const outcome = await outcomeFor(door, [request, reply, session], async (visit) => {
    if (needed !== undefined && !may(session, needed)) throw notOpened(session, needed);
    return show(visit);
  });
  return send(reply, outcome instanceof StepUpNeeded ? { seeOther: toStepUp(request, session) } : outcome);
};

/** @param scope for pages (platform/http/pages.ts). */
export const openConsole = (scope: App, ctx: PeopleContext, authentication: Authentication): Console => {
  const door: Door = { ctx, authentication };
  const handleForm = (path: string, options: FormOptions): void => {
    const config = { ...open.config, ...(options.isFetched && { isFetched: options.isFetched }) };
    scope.post(path, { ...open, config }, (request, reply) => takeForm(door, options, request, reply));
  };
  return {
    ctx,
    get: (path, show) => {
      const page = { needed: permissionOfPage(path), show };
      scope.get(path, open, (request, reply) => showPage(door, page, request, reply));
    },
    post: (path, act, keeps) => handleForm(path, { act, keeps }),
    postFetched: (path, act) => handleForm(path, { act, isFetched: true }),
    postAfterCode: (path, act, keeps) => handleForm(path, { act, keeps, isSensitive: true }),
  };
};
