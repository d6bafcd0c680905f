// Signs and verifies JSON documents with Ed25519 (RFC 8032), over their canonical form (RFC 8785).
import { sign, verify } from 'node:crypto';
import { type LogPublicKey, type LogSigningKey, publicKeyText } from './signed-note.ts';

/** Documents have whole numbers and well-formed texts only, so that their canonical form is that of JSON.stringify with sorted names. */
export type JsonDocument = { readonly [name: string]: JsonPart };
type JsonPart = string | number | null | JsonDocument | readonly JsonPart[];

export type SignedDocument = JsonDocument & {
  signature: { algorithm: 'Ed25519'; public_key: string; value: string };
};

/** By UTF-16 code units, as RFC 8785 section 3.2.3 sorts. */
const canonical = (part: JsonPart): string => {
  if (Array.isArray(part)) return `[${part.map(canonical).join(',')}]`;
  if (typeof part !== 'object' || part === null) return JSON.stringify(part);
  const document = part as JsonDocument;
  const names = Object.keys(document).toSorted((one, other) => (one < other ? -1 : 1));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(document[name] as JsonPart)}`).join(',')}}`;
};

export const signDocument = ({ key, publicKey }: LogSigningKey, document: JsonDocument): SignedDocument => ({
  ...document,
  signature: {
    algorithm: 'Ed25519',
    public_key: publicKeyText(publicKey),
    value: sign(null, Buffer.from(canonical(document)), key).toString('base64'),
  },
});

/**
 * @param publicKey of the vault: the one in the document is not believed.
 * @returns the document without its signature; undefined if it was not signed with the key.
 */
export const openDocument = (publicKey: LogPublicKey, signed: unknown): JsonDocument | undefined => {
  if (typeof signed !== 'object' || signed === null || Array.isArray(signed)) return undefined;
  const { signature, ...document } = signed as JsonDocument & { signature?: { algorithm?: unknown; value?: unknown } };
  if (signature?.algorithm !== 'Ed25519' || typeof signature.value !== 'string') return undefined;
  const value = Buffer.from(signature.value, 'base64');
  return verify(null, Buffer.from(canonical(document)), publicKey.key, value) ? document : undefined;
};
