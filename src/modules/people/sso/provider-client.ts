// Speaks OpenID Connect with the providers of tenants (openid-client): discovery, code exchange, sign-out. All requests go by egress.
import * as oidc from 'openid-client';
import { createCache } from '../../../platform/base/cache.ts';
import { EgressFault } from '../../../platform/base/egress-fault.ts';
import { egressFetch } from '../../../platform/egress/fetch.ts';
import type { Platform } from '../../../platform/services/platform.ts';
import type { Provider, SsoSettings } from './provider.ts';

/** Time of one request. A sign-in needs up to three at its end: tokens, keys, and what the provider says of the user. */
const TIMEOUT_SECONDS = 8;
/** Metadata and keys are a few kilobytes; a token may list the groups of a user. */
const ANSWER_BYTES_MAX = 256 * 1024;
/** How long what a provider says of itself is kept. Its keys are kept for five minutes; an unknown key is looked up once a minute. */
const METADATA_TTL_MS = 10 * 60_000;
const METADATA_MAX = 500;
/** How far the clocks of provider and vault may be apart. */
export const CLOCK_TOLERANCE_SECONDS = 30;

const SCOPE = 'openid email profile';

/**
 * Why a sign-in at a provider did not succeed: the provider refused it, could not be reached or made no sense, or sent something that
 * does not hold. The cause is a code of openid-client; it has no values.
 */
export type ProviderFaultKind = 'refused' | 'unavailable' | 'not_verified';

export class ProviderFault extends Error {
  override name = 'ProviderFault';
  readonly kind: ProviderFaultKind;
  /** For the process log. */
  readonly code: string;

  constructor(kind: ProviderFaultKind, code: string) {
    super(`the provider of a tenant: ${kind}, ${code}`);
    this.kind = kind;
    this.code = code;
  }
}

/** What the tokens say of a user, verified. */
export type Claims = {
  sub: string;
  email: string | undefined;
  isEmailVerified: boolean;
  first_name: string | undefined;
  last_name: string | undefined;
  name: string | undefined;
  /** When the user signed in at the provider, where it says so. */
  authTimeMs: number | undefined;
  id_token: string | undefined;
};

/** What a flow sends along, and what must come back with it. */
export type FlowSecrets = { state: string; nonce: string; verifier: string };

type ProviderClient = {
  /** The URL that the browser is led to. @param isAgain a user who is signed in there must sign in again. @throws ProviderFault. */
  authorizationUrl(
    asked: FlowSecrets & { redirect_uri: string; isAgain: boolean; login_hint?: string | undefined },
  ): Promise<string>;
  /** Exchanges the code of a callback, and verifies what comes for it. @throws ProviderFault. */
  exchange(callback: URL, secrets: FlowSecrets, isAgain: boolean): Promise<Claims>;
  /** URL at which the browser signs out of the provider; undefined if it does not offer that. @throws ProviderFault. */
  endSessionUrl(asked: { redirect_uri: string; id_token: string | undefined }): Promise<string | undefined>;
};

/** Between the request of a code and its exchange: as long as a flow lives. The flow itself checks the time exactly. */
const MAX_AGE_SECONDS = 900;

const refusals = new Set([
  'access_denied',
  'login_required',
  'interaction_required',
  'consent_required',
  'account_selection_required',
]);

/** Codes of openid-client for what was no valid answer at all. */
const noAnswer = new Set([
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
  'OAUTH_PARSE_ERROR',
  'OAUTH_TIMEOUT',
  'OAUTH_ABORT',
]);

/** An error code of OAuth, such as `invalid_client`. A provider may send anything: other texts are not logged. */
const codeText = (error: string): string => (/^[a-z_]{1,60}$/.test(error) ? error : 'unknown');

/** The first cause that this server knows. */
const causeOf = (error: unknown): EgressFault | undefined => {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1)
    if (at instanceof EgressFault) return at;
  return undefined;
};

const providerFaultOf = (error: unknown): ProviderFault => {
  if (error instanceof ProviderFault) return error;
  const egress = causeOf(error);
  if (egress) return new ProviderFault('unavailable', egress.code);
  if (error instanceof oidc.AuthorizationResponseError)
    return new ProviderFault(refusals.has(error.error) ? 'refused' : 'unavailable', codeText(error.error));
  if (error instanceof oidc.ResponseBodyError)
    return new ProviderFault(error.status >= 500 ? 'unavailable' : 'not_verified', codeText(error.error));
  if (error instanceof oidc.ClientError) {
    const { code = 'unknown' } = error;
    return new ProviderFault(noAnswer.has(code) ? 'unavailable' : 'not_verified', code);
  }
  return new ProviderFault('not_verified', (error as Error)?.name ?? 'unknown');
};

const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    throw providerFaultOf(error);
  }
};

const textOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Takes HTTPS only: browsers follow these URLs. @throws ProviderFault. */
const secureUrl = (url: URL): string => {
  if (url.protocol !== 'https:') throw new ProviderFault('not_verified', 'url_without_tls');
  return url.href;
};

type Services = Pick<Platform, 'accounts' | 'changes' | 'egress' | 'monotonicMs' | 'now'>;

const fetchFor =
  ({ accounts, egress }: Services, tenant_id: string): oidc.CustomFetch =>
  async (url, { body, headers, method, signal }) => {
    const answer = await egressFetch(
      { accounts, egress },
      {
        tenant_id,
        url,
        method,
        headers: Object.entries(headers),
        body: body === undefined || body === null ? undefined : Buffer.from(String(body)),
        redirect: 'manual',
        bodyBytesMax: ANSWER_BYTES_MAX,
        signal,
        timeouts: { wholeMs: Math.min(TIMEOUT_SECONDS * 1000, egress.timeouts.wholeMs) },
      },
    );
    try {
      // Decoded already.
      const kept = answer.headers.filter(([name]) => !/^content-(?:encoding|length)$/i.test(name));
      const isEmpty = [204, 205, 304].includes(answer.status);
      return new Response(isEmpty ? null : Uint8Array.from(answer.body), { status: answer.status, headers: kept });
    } finally {
      answer.release();
    }
  };

type Known = { tenant_id: string; metadata: oidc.ServerMetadata; jwks: oidc.ExportedJWKSCache | undefined };

export type ProviderClients = (tenant_id: string, provider: Provider) => ProviderClient;

/** Keeps what providers say of themselves for some minutes. */
export const createProviderClients = (ctx: Services): ProviderClients => {
  const known = createCache<Known>({
    max: METADATA_MAX,
    ttlMs: METADATA_TTL_MS,
    monotonicMs: ctx.monotonicMs,
    changes: ctx.changes,
    isStale: ({ tenant_id }, { subject, id }) => subject === 'tenant' && tenant_id === id,
  });

  const discover = async (tenant_id: string, { issuer, client_id }: SsoSettings): Promise<Known> => {
    const found = await oidc.discovery(new URL(issuer), client_id, undefined, oidc.None(), {
      [oidc.customFetch]: fetchFor(ctx, tenant_id),
      timeout: TIMEOUT_SECONDS,
    });
    const metadata = found.serverMetadata();
    // Some providers have an address for the users of all of their customers: each of them could sign in.
    if (new URL(metadata.issuer).href !== new URL(issuer).href) throw new ProviderFault('not_verified', 'issuer');
    return { tenant_id, metadata, jwks: undefined };
  };

  return (tenant_id, { settings, version }) => {
    const open = async (): Promise<{ known: Known; config: oidc.Configuration }> => {
      const found = await known.find(version, () => discover(tenant_id, settings));
      if (!found) throw new ProviderFault('unavailable', 'discovery');
      const methods = found.metadata.token_endpoint_auth_methods_supported;
      const isByPost = methods?.includes('client_secret_post') && !methods.includes('client_secret_basic');
      const config = new oidc.Configuration(
        found.metadata,
        settings.client_id,
        {
          [oidc.clockSkew]: Math.round((ctx.now().getTime() - Date.now()) / 1000),
          [oidc.clockTolerance]: CLOCK_TOLERANCE_SECONDS,
        },
        (isByPost ? oidc.ClientSecretPost : oidc.ClientSecretBasic)(settings.client_secret),
      );
      config.timeout = TIMEOUT_SECONDS;
      config[oidc.customFetch] = fetchFor(ctx, tenant_id);
      // Without it, openid-client trusts TLS and leaves out the signature of a token that came from the token endpoint.
      oidc.enableNonRepudiationChecks(config);
      if (found.jwks) oidc.setJwksCache(config, found.jwks);
      return { known: found, config };
    };

    return {
      authorizationUrl: ({ state, nonce, verifier, redirect_uri, isAgain, login_hint }) =>
        guarded(async () => {
          const { config } = await open();
          const url = oidc.buildAuthorizationUrl(config, {
            redirect_uri,
            scope: SCOPE,
            state,
            nonce,
            code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
            code_challenge_method: 'S256',
            ...(login_hint !== undefined && { login_hint }),
            // Providers know one or the other.
            ...(isAgain && { prompt: 'login', max_age: '0' }),
          });
          return secureUrl(url);
        }),

      exchange: (callback, { state, nonce, verifier }, isAgain) =>
        guarded(async () => {
          const { known: found, config } = await open();
          const tokens = await oidc.authorizationCodeGrant(config, callback, {
            expectedState: state,
            expectedNonce: nonce,
            pkceCodeVerifier: verifier,
            idTokenExpected: true,
            ...(isAgain && { maxAge: MAX_AGE_SECONDS }),
          });
          found.jwks = oidc.getJwksCache(config);
          const claims = tokens.claims();
          if (!claims) throw new ProviderFault('not_verified', 'no_id_token');
          // Many providers say who a user is at this endpoint alone.
          const isKnown = claims.email !== undefined || config.serverMetadata().userinfo_endpoint === undefined;
          const said = isKnown ? claims : await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
          return {
            sub: claims.sub,
            email: textOf(said.email),
            isEmailVerified: said.email_verified === true,
            first_name: textOf(said.given_name),
            last_name: textOf(said.family_name),
            name: textOf(said.name),
            authTimeMs: typeof claims.auth_time === 'number' ? claims.auth_time * 1000 : undefined,
            id_token: tokens.id_token,
          };
        }),

      endSessionUrl: ({ redirect_uri, id_token }) =>
        guarded(async () => {
          const { config } = await open();
          if (config.serverMetadata().end_session_endpoint === undefined) return undefined;
          const url = oidc.buildEndSessionUrl(config, {
            post_logout_redirect_uri: redirect_uri,
            ...(id_token !== undefined && { id_token_hint: id_token }),
          });
          return secureUrl(url);
        }),
    };
  };
};
