// API keys, svc_{test|live}_{public id}_{secret}{checksum}, and keys of sessions, svc_sess_...: creates and parses them.
import type { Platform } from '../../platform/services/platform.ts';
import { apiKeyDigest, crc32Base62, randomBase62 } from '../../platform/crypto/digest.ts';
import { Sensitive } from '../../platform/crypto/sensitive.ts';

/** 16 base62 characters: 95 bits, never reused. */
const PUBLIC_ID_LENGTH = 16;
/** 33 base62 characters: 196 bits, where ASVS 11.5.1 asks for at least 128. */
const SECRET_LENGTH = 33;
const CHECKSUM_LENGTH = 6;

const keyPattern = new RegExp(
  `^svc_(test|live|sess)_([0-9A-Za-z]{${PUBLIC_ID_LENGTH}})_([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
);

const publicIdPattern = new RegExp(
  `^(?:svc_(?:test|live)_)?([0-9A-Za-z]{${PUBLIC_ID_LENGTH}})(?:_[0-9A-Za-z]{${SECRET_LENGTH + CHECKSUM_LENGTH}})?$`,
);

/** The public part of a key: alone, after the prefix, or in a whole key. Undefined for a text that has none. */
export const publicIdIn = (text: string): string | undefined => publicIdPattern.exec(text)?.[1];

/** In a key in place of the environment. */
const SESSION = 'sess';

export type KeyParts = { publicId: string; secret: string; isOfSession: boolean };

/** Undefined for a wrong shape, environment or checksum. The checksum refuses typos before any query. */
export const parseApiKey = (text: string, environment: string): KeyParts | undefined => {
  const match = keyPattern.exec(text);
  if (!match) return undefined;
  const [, keyEnvironment, publicId, secret, checksum] = match as unknown as string[];
  const isOfSession = keyEnvironment === SESSION;
  if ((!isOfSession && keyEnvironment !== environment) || publicId === undefined || secret === undefined)
    return undefined;
  const body = text.slice(0, -CHECKSUM_LENGTH);
  return crc32Base62(body) === checksum ? { publicId, secret, isOfSession } : undefined;
};

const keyInText = new RegExp(
  `svc_(?:test|live|sess)_[0-9A-Za-z]{${PUBLIC_ID_LENGTH}}_[0-9A-Za-z]{${SECRET_LENGTH + CHECKSUM_LENGTH}}`,
);

/** All keys in a text. */
export const apiKeysIn = (text: string): string[] => text.match(new RegExp(keyInText, 'g')) ?? [];

/** Whether a text holds a key of any environment. The checksum does not matter: a key with a typo is as telling. */
export const holdsApiKey = (text: string): boolean => keyInText.test(text);

export type NewApiKey = { public_id: string; digest: Buffer; key: Sensitive<string> };

type Drawing = Pick<Platform, 'environment' | 'pepper' | 'randomBytes'>;

/** Draws a random key. `public_id` and `digest` are stored; `key` is shown once. */
export const newApiKey = (ctx: Drawing): NewApiKey => drawKey(ctx, ctx.environment);

/** Draws a random key like `newApiKey`, for a session. */
export const newSessionKey = (ctx: Drawing): NewApiKey => drawKey(ctx, SESSION);

const drawKey = (ctx: Drawing, kind: string): NewApiKey => {
  const publicId = randomBase62(PUBLIC_ID_LENGTH, ctx.randomBytes);
  const body = `svc_${kind}_${publicId}_${randomBase62(SECRET_LENGTH, ctx.randomBytes)}`;
  return describeApiKey(ctx, body + crc32Base62(body));
};

/** The stored form of a given key. @throws Error, without the key in it, for one that is not of this environment. */
export const describeApiKey = (ctx: Pick<Platform, 'environment' | 'pepper'>, key: string): NewApiKey => {
  const parts = parseApiKey(key, ctx.environment);
  if (!parts) throw new Error(`The API key is not a well-formed svc_${ctx.environment}_ key, or has a typo.`);
  const digest = apiKeyDigest(ctx.pepper, parts.publicId, parts.secret);
  return { public_id: parts.publicId, digest, key: new Sensitive(key) };
};
