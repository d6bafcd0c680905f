// Codes of authenticator apps (TOTP, RFC 6238), with their secrets and recovery codes.
import { Secret, TOTP } from 'otpauth';
import type { RandomBytes } from './random.ts';

/** RFC 4226 section 4 recommends 160 bits. */
const SECRET_BYTES = 20;
const PERIOD_MS = 30_000;
/** The clock of a device may be off by one step each way (RFC 6238 section 5.2). */
const WINDOW_STEPS = 1;
/** 80 bits, in 16 characters of base32. */
const RECOVERY_BYTES = 10;

/** The form that every authenticator app knows: SHA-1, six digits, 30 seconds. */
const totpOf = (secret: Uint8Array, label = ''): TOTP =>
  new TOTP({
    issuer: 'Strongroom',
    label,
    secret: new Secret({ buffer: Uint8Array.from(secret).buffer }),
    algorithm: 'SHA1',
    digits: 6,
    period: PERIOD_MS / 1000,
  });

export const newTotpSecret = (randomBytes: RandomBytes): Buffer => randomBytes(SECRET_BYTES);

/** What an app reads: a URI, for a QR code, and the secret as text. */
export const describeTotp = (secret: Uint8Array, label: string): { uri: string; text: string } => {
  const totp = totpOf(secret, label);
  return { uri: totp.toString(), text: totp.secret.base32 };
};

/** @returns the time step that a code of six digits belongs to; undefined for a wrong one. */
export const stepOfCode = (secret: Uint8Array, code: string, now: Date): number | undefined => {
  const timestamp = now.getTime();
  const delta = totpOf(secret).validate({ token: code, timestamp, window: WINDOW_STEPS });
  return delta === null ? undefined : Math.floor(timestamp / PERIOD_MS) + delta;
};

/** In base32: without 0, 1, 8 and 9, which read like letters. */
export const newRecoveryCode = (randomBytes: RandomBytes): string =>
  new Secret({ buffer: Uint8Array.from(randomBytes(RECOVERY_BYTES)).buffer }).base32;
