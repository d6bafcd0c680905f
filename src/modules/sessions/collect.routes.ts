// GET and POST /collect/:secret: a page of the vault that collects data without a script, and leads back to the merchant.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CODE_TYPE } from './sessions.ts';
import type { Json } from '../../platform/json/json.ts';
import { html, type Html } from '../../platform/http/html.ts';
import { fieldOf, formOf, pageOf, sendPage } from '../../platform/http/pages.ts';
import { findPageSessionBeforeCaller, type PageSession } from './rows.ts';
import { sessionPageDigest } from '../../platform/crypto/digest.ts';
import { AppError } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { originFor } from '../access/authenticate.ts';
import { createFailureCount } from '../access/failures.ts';
import { Work } from '../access/work.ts';
import { createToken } from '../tokens/create-tokens.ts';
import { findTokenType } from '../tokens/token-types.ts';
import { codeLengthOf, collectCode, findCard, type OpenedCard, showLastFour } from '../tokens/security-codes.ts';
import type { SessionsContext } from './context.ts';

// The form of the page for redirects: the fields of each kind of data, and what a person may type in them.

type Field = {
  name: string;
  label: string;
  hint?: string;
  autocomplete: string;
  inputmode: 'numeric' | 'text';
};

const fieldsOfCard: readonly Field[] = [
  { name: 'number', label: 'Card number', autocomplete: 'cc-number', inputmode: 'numeric' },
  { name: 'expiry', label: 'Expiry date', hint: 'MM/YY', autocomplete: 'cc-exp', inputmode: 'numeric' },
  { name: 'cvc', label: 'Security code', hint: '3 or 4 digits', autocomplete: 'cc-csc', inputmode: 'numeric' },
];

const fieldsOfBank: readonly Field[] = [
  { name: 'routing_number', label: 'Routing number', autocomplete: 'off', inputmode: 'numeric' },
  { name: 'account_number', label: 'Account number', autocomplete: 'off', inputmode: 'numeric' },
];

const labels: Record<string, string> = {
  card_number: 'Card number',
  us_bank_account_number: 'Account number',
  us_bank_routing_number: 'Routing number',
  social_security_number: 'Social security number',
  employer_id_number: 'Employer identification number',
};

/** @param type the name of a token type, or that of a session for one card. */
const fieldsOf = (type: string): readonly Field[] => {
  if (type === CODE_TYPE) return fieldsOfCard.filter(({ name }) => name === 'cvc');
  if (type === 'card') return fieldsOfCard;
  if (type === 'bank') return fieldsOfBank;
  return [{ name: 'value', label: labels[type] ?? 'Value', autocomplete: 'off', inputmode: 'text' }];
};

/** Digits as people type them, in groups. Other texts stay as they are, and are refused by the type. */
const digitsOf = (typed: string): string => typed.replace(/[\s-]/g, '');

/** `MM/YY` or `MM/YYYY`. Two digits are years of this century. */
const expiryOf = (typed: string): { expiration_month: number; expiration_year: number } | undefined => {
  const [, month, year] = /^\s*(\d{1,2})\s*[/ -]?\s*(\d{2}|\d{4})\s*$/.exec(typed) ?? [];
  if (month === undefined || year === undefined || Number(month) < 1 || Number(month) > 12) return undefined;
  return { expiration_month: Number(month), expiration_year: Number(year.length === 2 ? `20${year}` : year) };
};

type Typed = Record<string, string>;

/** What was typed: the data of a token, or a problem beside each field that is not right. */
type Read = { data: Json } | { problems: Record<string, string> };

const INVALID: Record<string, string> = {
  number: 'Check the card number.',
  expiry: 'Check the expiry date.',
  cvc: 'Check the security code.',
  routing_number: 'Check the routing number.',
  account_number: 'Check the account number.',
  value: 'Check the value.',
};

const problemsAt = (names: Iterable<string>): Read => ({
  problems: Object.fromEntries([...new Set(names)].map((name) => [name, INVALID[name] ?? 'Check this.'])),
});

/** The security code of one card. @param length of the code, where the brand of the card is known. */
const readCode = (typed: Typed, length: number | undefined): Read => {
  const code = digitsOf(typed['cvc'] ?? '');
  const isRight = /^[0-9]{3,4}$/.test(code) && (length === undefined || code.length === length);
  return isRight ? { data: code } : problemsAt(['cvc']);
};

/** @param now cards of past months are refused. @param check the rules of the token type: the attributes that are wrong. */
const readForm = (type: string, typed: Typed, now: Date, check: (data: Json) => readonly string[]): Read => {
  const one = (name: string): string => typed[name] ?? '';
  if (type === 'card') {
    const expiry = expiryOf(one('expiry'));
    const data = { number: digitsOf(one('number')), ...expiry, cvc: one('cvc').trim() };
    const isPast =
      expiry !== undefined &&
      expiry.expiration_year * 12 + expiry.expiration_month < now.getUTCFullYear() * 12 + now.getUTCMonth() + 1;
    const wrong = check(data).map((name) => (name.startsWith('expiration') ? 'expiry' : name));
    if (!expiry || isPast) wrong.push('expiry');
    return wrong.length > 0 ? problemsAt(wrong) : { data };
  }
  const data =
    type === 'bank'
      ? { routing_number: digitsOf(one('routing_number')), account_number: digitsOf(one('account_number')) }
      : one('value').trim();
  const wrong = data === '' ? ['value'] : check(data);
  return wrong.length > 0 ? problemsAt(wrong.map((name) => (name === '' ? 'value' : name))) : { data };
};

// The page that collects data without a script: the form, and a page for addresses that do not work.

const inputOf = ({ name, label, hint, autocomplete, inputmode }: Field, problem: string | undefined): Html => {
  const described =
    problem === undefined ? undefined : html` aria-invalid="true" aria-describedby="${name}-problem" autofocus`;
  const shown = problem === undefined ? undefined : html`<span class="problem" id="${name}-problem">${problem}</span>`;
  return html`<label>${label}${hint !== undefined && html`<small>${hint}</small>`}<input name="${name}" required autocomplete="${autocomplete}" inputmode="${inputmode}" maxlength="1000"${described}>${shown}</label>`;
};

/**
 * @param lastFour of the card whose security code is asked for, where the merchant may see them.
 * The form posts to the URL of the page itself, so that the page does not contain the secret. What was typed is not sent back:
 * a page with a card number would stay in the browser's cache and history.
 */
const collectPage = (
  { types, tenant_name, token_id }: PageSession,
  problems: Record<string, string>,
  lastFour?: string,
): string => {
  const ofCard = lastFour === undefined ? 'your card' : `your card that ends with ${lastFour}`;
  const asked =
    token_id === null
      ? html`<p>${tenant_name} asks for these. They are stored encrypted, and ${tenant_name} gets a token in their place.</p>`
      : html`<p>${tenant_name} asks for the security code of ${ofCard}. It is stored encrypted, and only for a short time.</p>`;
  const heading = token_id === null ? (types[0] === 'card' ? 'Card details' : 'Details') : 'Security code';
  return pageOf({
    title: 'Payment details',
    width: 'narrow',
    hasNoScript: true,
    main: html`<h1>${heading}</h1>
${asked}
${Object.keys(problems).length > 0 && html`<div class="notice bad" role="alert">Something is not right. Type it again.</div>`}
<form method="post" class="card">
${fieldsOf(types[0] ?? '').map((field) => inputOf(field, problems[field.name]))}
<button>Continue</button>
</form>`,
  });
};

/** The same for every address that does not work. */
const deadCollectPage = (trace_id: string): string =>
  pageOf({
    title: 'Page no longer valid',
    width: 'narrow',
    hasNoScript: true,
    main: html`<h1>This page is no longer valid</h1>
<p>It was used, or its time is over. Go back to the shop and try again.</p>
<p class="quiet">Trace <code>${trace_id}</code></p>`,
  });

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

  /** Finds the session of the page. If its card is gone, the page is no longer valid. */
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
