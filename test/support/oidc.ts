// A real OpenID Connect provider (oidc-provider) on loopback with TLS, whose accounts, tokens and answers a test chooses, and a browser.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, request as httpsRequest } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { Provider } from 'oidc-provider';
import { certificateFor, testCa } from './certificates.ts';

export type Account = {
  sub: string;
  email?: string;
  email_verified?: boolean;
  given_name?: string;
  family_name?: string;
};

export type IdToken = { header: Record<string, unknown>; claims: Record<string, any> };

/** What the provider does wrong. */
type Faults = {
  /** Answers every request instead of the provider. */
  answer?: (request: IncomingMessage, response: ServerResponse) => void;
  /** Changes the ID token before it is signed again, with another key where it says so. */
  idToken?: (token: IdToken) => { key?: KeyObject } | void;
};

export type OidcProvider = {
  issuer: string;
  port: number;
  client: { client_id: string; client_secret: string };
  /** Who sits before the browser and signs in at the provider; undefined cancels there. */
  person: Account | undefined;
  faults: Faults;
  /** Paths that were asked for. */
  paths: string[];
  /** Queries of authorization requests. */
  authorizations: URLSearchParams[];
  /** Registers the vault, after which the provider answers. */
  register(uris: { redirect: string[]; signOut: string[] }): void;
  close(): Promise<void>;
};

const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;

/** A key that no provider publishes. */
export const foreignKey = newKey();

const decode = (part: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(part, 'base64url').toString('utf8')) as Record<string, unknown>;

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

const resign = (token: string, key: KeyObject, change: NonNullable<Faults['idToken']>): string => {
  const [header = '', claims = ''] = token.split('.');
  const parts: IdToken = { header: decode(header), claims: decode(claims) };
  const { key: signing = key } = change(parts) ?? {};
  const text = `${encode(parts.header)}.${encode(parts.claims)}`;
  return `${text}.${sign('sha256', Buffer.from(text), signing).toString('base64url')}`;
};

export const startOidcProvider = async (host: string): Promise<OidcProvider> => {
  const sockets = new Set<Socket>();
  let handle: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => response.end();
  const server = createServer(certificateFor(host), (request, response) => handle(request, response));
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const issuer = `https://${host}:${port}`;
  const key = newKey();
  const state: OidcProvider = {
    issuer,
    port,
    client: { client_id: 'vault', client_secret: 'the-secret-of-the-client-at-the-provider' },
    person: undefined,
    faults: {},
    paths: [],
    authorizations: [],
    register: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
  /** Everyone who has signed in. */
  const accounts = new Map<string, Account>();
  state.register = ({ redirect, signOut }) => {
    const provider = new Provider(issuer, {
      clients: [
        {
          ...state.client,
          redirect_uris: redirect,
          post_logout_redirect_uris: signOut,
          response_types: ['code'],
          grant_types: ['authorization_code'],
        },
      ],
      jwks: { keys: [{ ...key.export({ format: 'jwk' }), kid: 'first', use: 'sig', alg: 'RS256' }] },
      cookies: { keys: ['a key of cookies'] },
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['given_name', 'family_name'] },
      pkce: { required: () => true },
      features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true } },
      interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
      findAccount: async (_: unknown, sub: string) => ({
        accountId: sub,
        claims: async () => accounts.get(sub) ?? { sub },
      }),
      loadExistingGrant: async ({ oidc }: any) => {
        const known = oidc.session.grantIdFor(oidc.client.clientId);
        if (known) return oidc.provider.Grant.find(known);
        const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
        grant.addOIDCScope('openid email profile');
        await grant.save();
        return grant;
      },
      ttl: { AccessToken: 600, AuthorizationCode: 60, IdToken: 600, Interaction: 600, Grant: 3600, Session: 3600 },
    });
    provider.proxy = true;
    provider.use(async (ctx: any, next: () => Promise<void>) => {
      if (ctx.path === '/auth') state.authorizations.push(new URLSearchParams(ctx.querystring));
      await next();
      const { idToken } = state.faults;
      if (ctx.path === '/token' && idToken && ctx.body?.id_token)
        ctx.body = { ...ctx.body, id_token: resign(ctx.body.id_token, key, idToken) };
    });
    const inner = provider.callback();
    const interact = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const { person } = state;
      if (person) accounts.set(person.sub, person);
      const result = person
        ? { login: { accountId: person.sub } }
        : { error: 'access_denied', error_description: '<b>the person</b> cancelled' };
      await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
    };
    handle = (request, response) => {
      const path = request.url ?? '';
      state.paths.push(path.replace(/\?.*/, ''));
      if (state.faults.answer) return state.faults.answer(request, response);
      if (path.startsWith('/interaction/')) return void interact(request, response);
      return void inner(request, response);
    };
  };
  return state;
};

export type Visited = { status: number; headers: IncomingMessage['headers']; text: string; url: string };

/** A browser at the provider: keeps its cookies, and follows its redirects until one leads to another origin. */
export const openProviderBrowser = ({ port, issuer }: Pick<OidcProvider, 'port' | 'issuer'>) => {
  const cookies = new Map<string, string>();
  const ask = (url: string, method: string, body?: string): Promise<Visited> =>
    new Promise((resolve, reject) => {
      const { hostname, pathname, search } = new URL(url);
      const request = httpsRequest(
        {
          host: '127.0.0.1',
          port,
          servername: hostname,
          ca: testCa,
          method,
          path: pathname + search,
          headers: {
            host: new URL(url).host,
            cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
            ...(body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
          },
        },
        (response) => {
          const pieces: Buffer[] = [];
          for (const line of response.headers['set-cookie'] ?? []) {
            const [pair = ''] = line.split(';');
            const at = pair.indexOf('=');
            if (pair.slice(at + 1) === '') cookies.delete(pair.slice(0, at));
            else cookies.set(pair.slice(0, at), pair.slice(at + 1));
          }
          response.on('data', (piece: Buffer) => pieces.push(piece));
          response.on('end', () =>
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              text: Buffer.concat(pieces).toString('utf8'),
              url,
            }),
          );
        },
      );
      request.on('error', reject);
      request.end(body);
    });
  const follow = async (url: string): Promise<{ leftFor: string } | Visited> => {
    let at = url;
    for (let hops = 0; hops < 10; hops += 1) {
      const visited = await ask(at, 'GET');
      const { location } = visited.headers;
      if (location === undefined) return visited;
      at = new URL(location, at).href;
      if (!at.startsWith(issuer)) return { leftFor: at };
    }
    throw new Error('too many redirects');
  };
  return {
    cookies,
    follow,
    /** Submits the form of a page of the provider. */
    submit: async (page: Visited, more: Record<string, string> = {}): Promise<Visited> => {
      const action = /<form[^>]*action="([^"]+)"/.exec(page.text)?.[1] ?? '';
      const hidden = [...page.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
        ([, name = '', value = '']) => [name, value] as const,
      );
      const fields = new URLSearchParams({ ...Object.fromEntries(hidden), ...more });
      return ask(new URL(action, page.url).href, 'POST', fields.toString());
    },
  };
};
