// Passkeys (WebAuthn): options for browsers, and the verification of what authenticators answer.
import { z } from 'zod';
import { challengeDigest, type DigestKey, equalDigests } from './digest.ts';
import type { RandomBytes } from './random.ts';
import { parseJson } from '../json/json.ts';

// Challenges of passkeys: bound to a session and a purpose by a MAC, and valid for five minutes. Nothing is stored until one is used.

/** Time to find a key and touch it. The WebAuthn standard recommends 5 to 10 minutes. */
export const CHALLENGE_MS = 5 * 60_000;

/** The WebAuthn standard asks for 16 random bytes at least. */
const RANDOM_BYTES = 16;
const TIME_BYTES = 8;
const CONTENT_BYTES = RANDOM_BYTES + TIME_BYTES;
const MAC_BYTES = 32;

/** What a challenge is for: to create a passkey, which took the password, or to use one. */
export type ChallengeOf = { session: Uint8Array; purpose: 'create' | 'use' };

type Making = { pepper: DigestKey; now: () => Date };

/** Random bytes, the time when it expires, and the MAC of both. A writer of the database cannot make one, nor make an old one new. */
export const newChallenge = (
  { pepper, now, randomBytes }: Making & { randomBytes: RandomBytes },
  { session, purpose }: ChallengeOf,
): Buffer => {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeBigUInt64BE(BigInt(now().getTime() + CHALLENGE_MS));
  const content = Buffer.concat([randomBytes(RANDOM_BYTES), time]);
  return Buffer.concat([content, challengeDigest(pepper, session, purpose, content)]);
};

/** @returns when it expires; undefined where it has expired, or is not one that the server made for this session and purpose. */
export const expiryOfChallenge = (
  { pepper, now }: Making,
  { session, purpose }: ChallengeOf,
  challenge: Uint8Array,
): Date | undefined => {
  if (challenge.length !== CONTENT_BYTES + MAC_BYTES) return undefined;
  const content = Buffer.from(challenge.subarray(0, CONTENT_BYTES));
  if (!equalDigests(challenge.subarray(CONTENT_BYTES), challengeDigest(pepper, session, purpose, content)))
    return undefined;
  const expiresMs = Number(content.readBigUInt64BE(RANDOM_BYTES));
  return expiresMs > now().getTime() ? new Date(expiresMs) : undefined;
};

/** Origin and host that passkeys belong to: browsers use one only for this host, and name the origin in each answer. */
export type PasskeyPlace = { origin: string; rp_id: string };

/** What the vault keeps of a passkey. Ids and keys are base64url. */
export type PasskeyCredential = {
  credential_id: string;
  public_key: string;
  counter: number;
  transports: string[];
};

/** An answer has some 1,000 characters, with a key of RSA 2,000. */
export const ANSWER_LENGTH_MAX = 16_384;
/** A key of RSA with 4,096 bits has some 530 bytes: a larger one would take long to verify with. */
const PUBLIC_KEY_BYTES_MAX = 600;
/** The WebAuthn standard: 1,023 bytes at most. */
const CREDENTIAL_ID_LENGTH_MAX = 1_364;
/** More kinds of connection than there are. */
const TRANSPORTS_MAX = 10;
/** ES256, EdDSA and RS256, by their numbers in COSE: what authenticators have. Named, since defaults depend on the version of Node. */
const ALGORITHMS = [-7, -8, -257];

const base64url = (lengthMax: number) =>
  z
    .string()
    .max(lengthMax)
    .regex(/^[A-Za-z0-9_-]+$/);

const part = base64url(ANSWER_LENGTH_MAX);

const credential = {
  id: base64url(CREDENTIAL_ID_LENGTH_MAX),
  rawId: base64url(CREDENTIAL_ID_LENGTH_MAX),
  type: z.literal('public-key'),
};

const createdSchema = z.object({
  ...credential,
  response: z.object({
    clientDataJSON: part,
    attestationObject: part,
    transports: z
      .array(z.enum(['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb']))
      .max(TRANSPORTS_MAX)
      .default([]),
  }),
});

const usedSchema = z.object({
  ...credential,
  response: z.object({ clientDataJSON: part, authenticatorData: part, signature: part }),
});

const clientDataSchema = z.object({ challenge: part, crossOrigin: z.literal(false).optional() });

/** An answer of an authenticator, with the challenge that it names. */
export type CreatedAnswer = z.infer<typeof createdSchema> & { challenge: string };
export type UsedAnswer = z.infer<typeof usedSchema> & { challenge: string };

const parseAnswer = <T extends { response: { clientDataJSON: string } }>(
  schema: z.ZodType<T>,
  text: string,
): (T & { challenge: string }) | undefined => {
  const parsed = text.length > ANSWER_LENGTH_MAX ? undefined : schema.safeParse(parseJson(text)).data;
  const clientData = parsed && Buffer.from(parsed.response.clientDataJSON, 'base64url').toString('utf8');
  const named = clientData && clientDataSchema.safeParse(parseJson(clientData)).data;
  return parsed && named ? { ...parsed, challenge: named.challenge } : undefined;
};

/** @returns undefined for a text that is no answer. */
export const parseCreatedAnswer = (text: string): CreatedAnswer | undefined => parseAnswer(createdSchema, text);
export const parseUsedAnswer = (text: string): UsedAnswer | undefined => parseAnswer(usedSchema, text);

/** Half a second of CPU time and 30 MB, which a vault without passkeys does not need. Load it before a transaction that verifies. */
export const loadPackage = () => import('@simplewebauthn/server');

const listed = (passkeys: readonly PasskeyCredential[]) =>
  passkeys.map(({ credential_id: id, transports }) => ({ id, transports: transports as never[] }));

type Asking = { place: PasskeyPlace; challenge: Buffer; timeoutMs: number; passkeys: readonly PasskeyCredential[] };

/**
 * Options to create a passkey, as JSON for the browser. A password was given before, so a touch is enough: the authenticator asks for
 * a PIN or a finger where it can (`preferred`).
 * @param asking.passkeys of the user: no authenticator takes a second one.
 */
export const creationOptions = async (
  { place, challenge, timeoutMs, passkeys }: Asking,
  user: { id: Buffer; name: string; displayName: string },
): Promise<string> => {
  const { generateRegistrationOptions } = await loadPackage();
  const options = await generateRegistrationOptions({
    rpName: 'Strongroom',
    rpID: place.rp_id,
    userID: Uint8Array.from(user.id),
    userName: user.name,
    userDisplayName: user.displayName,
    challenge: Uint8Array.from(challenge),
    timeout: timeoutMs,
    attestationType: 'none',
    excludeCredentials: listed(passkeys),
    authenticatorSelection: { residentKey: 'preferred', userVerification: 'preferred' },
    supportedAlgorithmIDs: ALGORITHMS,
  });
  return JSON.stringify(options);
};

/** Options to use one of these passkeys, as JSON for the browser. */
export const requestOptions = async ({ place, challenge, timeoutMs, passkeys }: Asking): Promise<string> => {
  const { generateAuthenticationOptions } = await loadPackage();
  const options = await generateAuthenticationOptions({
    rpID: place.rp_id,
    challenge: Uint8Array.from(challenge),
    timeout: timeoutMs,
    allowCredentials: listed(passkeys),
    userVerification: 'preferred',
  });
  return JSON.stringify(options);
};

/**
 * Whether the authenticator says nothing of its make, as it was asked, or signs with the passkey itself. The package would verify
 * other statements by certificates, and ask the addresses in them whether they are revoked.
 */
const hasNoCertificates = async (attestationObject: string): Promise<boolean> => {
  const { decodeAttestationObject } = await import('@simplewebauthn/server/helpers');
  const decoded = decodeAttestationObject(Uint8Array.from(Buffer.from(attestationObject, 'base64url')));
  const format = decoded.get('fmt');
  return format === 'none' || (format === 'packed' && decoded.get('attStmt').get('x5c') === undefined);
};

/** A package's error says what was wrong with data of the client, so it is dropped: the answer is refused. */
const orRefused = async <T>(verify: () => Promise<T | undefined>): Promise<T | undefined> => {
  try {
    return await verify();
  } catch {
    return undefined;
  }
};

/** Verifies the answer to `creationOptions`, except for its challenge. @returns undefined where it is refused. */
export const verifyCreated = (place: PasskeyPlace, answer: CreatedAnswer): Promise<PasskeyCredential | undefined> =>
  orRefused(async () => {
    const { challenge, ...response } = answer;
    if (!(await hasNoCertificates(response.response.attestationObject))) return undefined;
    const { verifyRegistrationResponse } = await loadPackage();
    const verified = await verifyRegistrationResponse({
      response: { ...response, clientExtensionResults: {} },
      expectedChallenge: challenge,
      expectedOrigin: place.origin,
      expectedRPID: place.rp_id,
      requireUserVerification: false,
      supportedAlgorithmIDs: ALGORITHMS,
    });
    if (!verified.verified) return undefined;
    const { id, publicKey, counter } = verified.registrationInfo.credential;
    if (publicKey.length > PUBLIC_KEY_BYTES_MAX || id !== answer.id) return undefined;
    const { transports } = response.response;
    return { credential_id: id, public_key: Buffer.from(publicKey).toString('base64url'), counter, transports };
  });

/**
 * Verifies the answer to `requestOptions`, except for its challenge and its counter.
 * @returns the counter of the authenticator; undefined where the answer is refused.
 */
export const verifyUsed = (
  place: PasskeyPlace,
  { credential_id, public_key }: PasskeyCredential,
  answer: UsedAnswer,
): Promise<number | undefined> =>
  orRefused(async () => {
    const { challenge, ...response } = answer;
    const { verifyAuthenticationResponse } = await loadPackage();
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: { ...response, clientExtensionResults: {} },
      expectedChallenge: challenge,
      expectedOrigin: place.origin,
      expectedRPID: place.rp_id,
      requireUserVerification: false,
      credential: {
        id: credential_id,
        publicKey: Uint8Array.from(Buffer.from(public_key, 'base64url')),
        // Below every counter: the package compares counters before it verifies the signature, and anyone could raise an alarm.
        counter: -1,
      },
    });
    return verified ? authenticationInfo.newCounter : undefined;
  });

/** Whether a counter says that the passkey exists twice. Many authenticators count nothing, and always say 0. */
export const isCounterBack = (stored: number, given: number): boolean => (stored > 0 || given > 0) && given <= stored;
