// The demo's shop: a backend that creates sessions, and charges a token through the vault's proxy. It never holds a card.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { checkoutPage } from './pages.ts';

export type ShopOptions = {
  port: number;
  vaultUrl: string;
  /** May create and read sessions, create tokens, read their masks, replace security codes, and use tokens. */
  apiKey: string;
  chargeUrl: string;
  processorPageUrl: string;
};

/** Cents. A shop keeps it with the order. */
const AMOUNT = 1999;

/** @returns the address of the shop. */
export const startShop = async ({ port, vaultUrl, apiKey, chargeUrl, processorPageUrl }: ShopOptions) => {
  let origin = '';

  const sendToVault = (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Response> =>
    fetch(`${vaultUrl}${path}`, {
      method,
      headers: { 'svc-api-key': apiKey, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });

  const askVault = async (method: string, path: string, body?: unknown): Promise<any> => {
    const response = await sendToVault(method, path, body);
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };

  const { current, versions } = await askVault('GET', '/fields/integrity.json');

  /** The sessions of this shop. A browser may name others. */
  const sessions = new Set<string>();

  /** The card of the last payment, as a shop keeps it for a customer who has signed in. */
  let onFile: { token: string; ending: string } | undefined;

  const showPage = (): { page: string; policy: string } => {
    const nonce = randomBytes(16).toString('base64');
    const policy = [
      "default-src 'none'",
      `script-src 'nonce-${nonce}'`,
      `style-src 'nonce-${nonce}'`,
      "connect-src 'self'",
      `frame-src ${vaultUrl} ${new URL(processorPageUrl).origin}`,
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
    ].join('; ');
    const integrity = versions[current]['fields.js'];
    const ending = onFile?.ending;
    return { page: checkoutPage({ nonce, vaultUrl, version: current, integrity, processorPageUrl, ending }), policy };
  };

  /** A session for a new card, or for the security code of the one on file. */
  const startSession = async (more: { types: string[]; token_id?: string }): Promise<string> => {
    const { id, session_key } = await askVault('POST', '/sessions', { allowed_origins: [origin], ...more });
    sessions.add(id);
    return JSON.stringify({ id, session_key });
  };

  /** The card on file is known here: the page names no token. */
  const payOnFile = ({ session }: { session: string }) => {
    if (!onFile) throw new Error('no card is on file');
    return pay({ session, token: onFile.token });
  };

  const pay = async ({ session, token }: { session: string; token: string }) => {
    if (!sessions.has(session)) throw new Error('the session is not of this shop');
    const { tokens } = await askVault('GET', `/sessions/${session}`);
    if (!tokens.includes(token)) throw new Error('the token is not of this session');
    const { mask } = await askVault('GET', `/tokens/${token}`);
    const charge = {
      amount: AMOUNT,
      currency: 'eur',
      card: {
        number: `{{ ${token} | json: '$.number' }}`,
        exp_month: `{{ ${token} | json: '$.expiration_month' }}`,
        exp_year: `{{ ${token} | json: '$.expiration_year' }}`,
        cvc: `{{ ${token} | json: '$.cvc' }}`,
      },
    };
    const response = await sendToVault('POST', '/proxy', charge, { 'svc-proxy-url': chargeUrl });
    const answer: any = await response.json();
    // Without this header the processor did not answer: after a timeout or a reset it may have charged the card.
    const hasAnswer = response.headers.has('svc-proxy-destination-status');
    const status = hasAnswer ? answer.status : `unknown: ${answer.proxy_error?.detail ?? 'no answer'}`;
    if (status === 'succeeded') onFile = { token, ending: mask.number.slice(-4) };
    const merchant = [
      `received ${JSON.stringify({ token })}`,
      `sent to ${vaultUrl}/proxy ${JSON.stringify(charge, null, 2)}`,
      `received ${response.status} ${JSON.stringify(answer)}`,
    ].join('\n');
    return { status, merchant };
  };

  const server = createServer(async (request, response) => {
    try {
      const body = await text(request);
      response.setHeader('content-type', 'application/json');
      switch (`${request.method} ${request.url}`) {
        case 'GET /': {
          const { page, policy } = showPage();
          response.setHeader('content-security-policy', policy);
          response.setHeader('content-type', 'text/html; charset=utf-8');
          response.end(page);
          return;
        }
        case 'POST /session': {
          response.end(await startSession({ types: ['card'] }));
          return;
        }
        case 'POST /pay':
          response.end(JSON.stringify(await pay(JSON.parse(body))));
          return;
        case 'POST /code-session':
          if (!onFile) throw new Error('no card is on file');
          response.end(await startSession({ types: ['cvc'], token_id: onFile.token }));
          return;
        case 'POST /pay-on-file':
          response.end(JSON.stringify(await payOnFile(JSON.parse(body))));
          return;
        default:
          response.writeHead(404).end('{}');
      }
    } catch (error) {
      console.error(`shop: ${(error as Error).message}`);
      response.writeHead(502).end('{}');
    }
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  return { url: `${origin}/`, close: () => server.close() };
};
