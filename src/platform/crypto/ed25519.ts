// Verifies Ed25519 signatures of others (RFC 8032), by public keys in base64url (RFC 8037).
import { createPublicKey, type KeyObject, verify } from 'node:crypto';

export type Ed25519Key = KeyObject;

/** 32 bytes in base64url. */
export const ed25519KeyForm = /^[A-Za-z0-9_-]{43}$/;

export const parseEd25519Key = (x: string): Ed25519Key =>
  createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });

/** 64 bytes in base64url. */
const signatureForm = /^[A-Za-z0-9_-]{86}(?:==)?$/;

/** Whether one of the keys has signed the text. */
export const isSignedBy = (keys: readonly Ed25519Key[], signature: string, signedText: string): boolean =>
  signatureForm.test(signature) &&
  keys.some((key) => verify(null, Buffer.from(signedText), key, Buffer.from(signature, 'base64url')));
