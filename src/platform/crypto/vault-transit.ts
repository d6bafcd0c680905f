// The key provider of the transit engine of HashiCorp Vault and OpenBao, by HTTP.
import { readFileSync } from 'node:fs';
import { Agent as HttpAgent, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { z } from 'zod';
import { StartError } from '../base/errors.ts';
import { formatNamed, type KeyProvider, parseWrapped } from './key-provider.ts';
import {
  badAnswer,
  bindToContext,
  contextBytes,
  createKeyService,
  KeyServiceFault,
  noAnswer,
  notAllowed,
  refusedWith,
  unbind,
} from './key-service.ts';
import { SealBroken } from './seal.ts';

export type VaultTransitConfig = {
  /** An origin, or with a path before `/v1`. */
  address: string;
  namespace: string | undefined;
  mount: string;
  /** Names of keys: the first wraps. */
  keys: string[];
  /** PEM files of certificate authorities in place of the system's. */
  caFile: string | undefined;
  credentials:
    | { kind: 'token'; token: string }
    /** An agent renews the token in the file. */
    | { kind: 'token_file'; path: string }
    | { kind: 'approle'; role_id: string; secret_id: string };
};

const NAME = 'vault-transit';
/** A ciphertext of a key has some hundred bytes. */
const ANSWER_BYTES_MAX = 64 * 1024;
/** A token of AppRole is replaced when this share of its life is over. */
const RENEW_SHARE = 0.7;

const CIPHERTEXT = /^vault:v\d{1,9}:[A-Za-z0-9+/=]+$/;

const encrypted = z.object({ data: z.object({ ciphertext: z.string().regex(CIPHERTEXT) }) });
const decrypted = z.object({ data: z.object({ plaintext: z.base64() }) });
const loggedIn = z.object({ auth: z.object({ client_token: z.string().min(1), lease_duration: z.number() }) });

const readCa = (path: string): string => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new StartError(`VAULT_CACERT: the file ${path} cannot be read.`);
  }
};

const failed = z.object({ errors: z.array(z.string()) });

/** Texts of a 400, of Vault and OpenBao, that say that the ciphertext was changed, or is for another context. */
const BROKEN_TEXTS = ['message authentication failed', 'unable to decrypt', 'ciphertext length', 'could not decode'];

/** Error of a 400 answer to a decryption request. Other texts say nothing of the ciphertext: it must not count as damaged. */
const faultOfDecryption = (body: unknown): Error => {
  const texts = failed.safeParse(body).data?.errors ?? [];
  const says = (text: string): boolean => texts.some((each) => each.includes(text));
  if (BROKEN_TEXTS.some(says)) return new SealBroken();
  if (says('too old'))
    return new KeyServiceFault(
      'does not decrypt with this version of the key any more: lower min_decryption_version, run keys rotate-root, and raise it again',
      false,
    );
  if (says('version is too new'))
    return new KeyServiceFault('has no such version of the key: it was restored from before, or made anew', false);
  if (says('key not found')) return new KeyServiceFault('has no such key', false);
  return new KeyServiceFault('refused to decrypt for a reason that is not known (status 400)', false);
};

type Answer = { status: number; body: unknown };

/** Sends JSON and reads JSON. @throws KeyServiceFault. */
const createClient = ({ address, namespace, caFile }: VaultTransitConfig) => {
  const isTls = address.startsWith('https:');
  const agent = isTls
    ? new HttpsAgent({ keepAlive: true, minVersion: 'TLSv1.2', ...(caFile !== undefined && { ca: readCa(caFile) }) })
    : new HttpAgent({ keepAlive: true });
  return (path: string, token: string | undefined, body: object, signal: AbortSignal): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(body);
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        'x-vault-request': 'true',
        ...(token !== undefined && { 'x-vault-token': token }),
        ...(namespace !== undefined && { 'x-vault-namespace': namespace }),
      };
      const failed = (error: unknown): void => reject(noAnswer(error));
      const url = `${address.replace(/\/$/, '')}/v1/${path}`;
      const request = (isTls ? requestHttps : requestHttp)(url, { method: 'POST', agent, headers, signal });
      request.once('error', failed);
      request.once('response', (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.once('error', failed);
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > ANSWER_BYTES_MAX) response.destroy(new Error('too long'));
          else chunks.push(chunk);
        });
        response.once('end', () => {
          const bytes = Buffer.concat(chunks);
          try {
            resolve({ status: response.statusCode ?? 0, body: bytes.length === 0 ? {} : JSON.parse(bytes.toString()) });
          } catch {
            // An error page of what is before Vault.
            if (response.statusCode === 200) reject(badAnswer());
            else resolve({ status: response.statusCode ?? 0, body: {} });
          } finally {
            bytes.fill(0);
          }
        });
      });
      request.end(text);
    });
};

const parse = <T>(schema: z.ZodType<T>, { status, body }: Answer): T => {
  if (status === 401 || status === 403) throw notAllowed();
  if (status !== 200) throw refusedWith(status);
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw badAnswer();
  return parsed.data;
};

/**
 * @param attemptMs as of `createKeyService`.
 * @returns a provider for each key, the one that wraps first. They share their connections and their token.
 */
export const vaultTransitProviders = (config: VaultTransitConfig, attemptMs?: number): KeyProvider[] => {
  const { mount, keys, credentials } = config;
  const send = createClient(config);
  const service = createKeyService(attemptMs);
  let login: { token: string; untilMs: number } | undefined;

  const tokenOf = async (signal: AbortSignal): Promise<string> => {
    if (credentials.kind === 'token') return credentials.token;
    if (credentials.kind === 'token_file')
      try {
        return readFileSync(credentials.path, 'utf8').trim();
      } catch (error) {
        throw new KeyServiceFault('has no token: the file VAULT_TOKEN_FILE cannot be read', true, error);
      }
    if (login && performance.now() < login.untilMs) return login.token;
    const { role_id, secret_id } = credentials;
    const answer = await send('auth/approle/login', undefined, { role_id, secret_id }, signal);
    // Vault says 400 for a role or secret that is not valid.
    if (answer.status === 400) throw notAllowed();
    const { auth } = parse(loggedIn, answer);
    login = { token: auth.client_token, untilMs: performance.now() + auth.lease_duration * 1000 * RENEW_SHARE };
    return auth.client_token;
  };

  const ask = async (path: string, body: object, signal: AbortSignal): Promise<Answer> => {
    const answer = await send(path, await tokenOf(signal), body, signal);
    if (answer.status !== 403 || credentials.kind !== 'approle' || login === undefined) return answer;
    // The token was revoked before its time: once more with a new one.
    login = undefined;
    return send(path, await tokenOf(signal), body, signal);
  };

  return keys.map((key) => {
    const root_key_id = `${mount}/${key}`;
    return {
      describe: () => ({ name: NAME, root_key_id }),
      isAvailable: () => service.isAvailable(),
      wrap: (secret, context) =>
        service.call(async (signal) => {
          const bound = bindToContext(secret, context);
          const plaintext = bound.toString('base64');
          bound.fill(0);
          const associated_data = contextBytes(context).toString('base64');
          const answer = await ask(`${mount}/encrypt/${key}`, { plaintext, associated_data }, signal);
          const { ciphertext } = parse(encrypted, answer).data;
          const version = ciphertext.split(':')[1] as string;
          return formatNamed({ name: NAME, root_key_id, version, body: Buffer.from(ciphertext) });
        }),
      unwrap: async (wrapped, context) => {
        const { body } = parseWrapped(wrapped);
        const ciphertext = Buffer.from(body).toString();
        if (!CIPHERTEXT.test(ciphertext)) throw new SealBroken();
        return service.call(async (signal) => {
          const associated_data = contextBytes(context).toString('base64');
          const answer = await ask(`${mount}/decrypt/${key}`, { ciphertext, associated_data }, signal);
          if (answer.status === 400) throw faultOfDecryption(answer.body);
          return unbind(Buffer.from(parse(decrypted, answer).data.plaintext, 'base64'), context);
        });
      },
    };
  });
};
