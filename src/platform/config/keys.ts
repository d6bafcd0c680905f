// Variables of root keys and of the services that hold them.
import { z } from 'zod';
import { parseWantedSet } from '../crypto/share-sets.ts';
import { PROVIDER_NAMES, type ProviderName } from '../crypto/provider-config.ts';
import { duration, isPrivateUrl, words } from './forms.ts';
import { HOUR_MS } from '../base/times.ts';

/** Security codes are sensitive authentication data (PCI DSS): stored for an hour by default, and never for more than a day. */
const CVC_TTL_DEFAULT = '1h';
const CVC_TTL_MAX_MS = 24 * HOUR_MS;
/** 32 bytes: 64 hex digits, or 43 characters of base64 or base64url whose last one has no unused bits set. */
const ROOT_KEY_FORMS = [
  ['hex', /^[0-9a-fA-F]{64}$/],
  ['base64', /^[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=?$/],
  ['base64url', /^[0-9A-Za-z_-]{42}[AEIMQUYcgkosw048]=?$/],
] as const;

/** Parses a root key; undefined unless the text is exactly 32 bytes. Buffer.from() alone would ignore invalid characters. */
export const parseRootKey = (text: string): Buffer | undefined => {
  const written = text.trim();
  const [encoding] = ROOT_KEY_FORMS.find(([, form]) => form.test(written)) ?? [];
  return encoding && Buffer.from(written, encoding);
};

const rootKey = z.string().transform((text, problems) => {
  const key = parseRootKey(text);
  if (key) return key;
  problems.addIssue(
    'must be 32 random bytes in base64. Make one, and store it in your secret manager first: head -c 32 /dev/urandom | base64',
  );
  return z.NEVER;
});

const rootKeys = z.string().transform((text, problems) => {
  const keys = text.split(',').map(parseRootKey);
  if (keys.every((key) => key !== undefined)) return keys;
  problems.addIssue('must be root keys of 32 bytes in base64, comma-separated');
  return z.NEVER;
});

const shareSets = words.transform((entries, problems) => {
  const sets = entries.map(parseWantedSet);
  const isWell = sets.every((set) => set !== undefined) && (sets.length === 1 || sets.every(({ set }) => set));
  if (isWell) return sets;
  problems.addIssue(
    'must be like 2/3: two of three shares. Several sets name themselves, comma-separated, such as 2/3:5f2a9c01,2/3:77aa01bc',
  );
  return z.NEVER;
});

const providerNames = words.transform((names, problems) => {
  const known = PROVIDER_NAMES.filter((name) => names.includes(name));
  if (names.length > 0 && known.length === names.length) return names as ProviderName[];
  problems.addIssue(`must be one of ${PROVIDER_NAMES.join(', ')}, or several, comma-separated`);
  return z.NEVER;
});

/** Part of a path: names of the transit engine have no other characters. */
const transitName = /^[A-Za-z0-9._-]{1,128}$/;
const transitMount = /^[A-Za-z0-9._-]{1,128}(?:\/[A-Za-z0-9._-]{1,128}){0,4}$/;
/** An alias is refused: it could later lead to a key that opens nothing. */
const kmsKeyArn = /^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]{1,128}$/;

/** A label of PKCS #11 has at most 32 bytes, filled up with blanks. */
const TOKEN_LABEL_BYTES_MAX = 32;
const isTokenLabel = (text: string): boolean =>
  text === text.trim() && text !== '' && Buffer.byteLength(text) <= TOKEN_LABEL_BYTES_MAX;

/** Address of a key service: keys and credentials pass on the way to it. */
const keyServiceUrl = z
  .string()
  .refine(
    isPrivateUrl,
    'must be an https:// address, or http:// of localhost, 127.0.0.1 or [::1] only: keys and credentials pass there',
  );

/** Variables of root keys and security codes. */
export const keyVariables = {
  MASTER_KEY: rootKey
    .optional()
    .describe('Root key: 32 random bytes in base64. Needed in production; a development server makes its own.'),
  MASTER_KEY_PROVIDER: providerNames
    .prefault('local')
    .describe(
      'What holds the root key: `local` (MASTER_KEY), `vault-transit`, `aws-kms` or `pkcs11` (an HSM). Further ones after a comma open what they wrapped.',
    ),
  MASTER_KEY_PREVIOUS: rootKeys
    .optional()
    .describe(
      'Earlier root keys, comma-separated. They open what they wrapped, until `strongroom admin keys rotate-root` has wrapped all of it under MASTER_KEY.',
    ),
  MASTER_KEY_SHARES: shareSets
    .optional()
    .describe(
      'The root key is split into shares, such as `2/3`: the server starts sealed, and `strongroom admin unseal` gives it shares. In place of MASTER_KEY.',
    ),
  UNSEAL_SOCKET: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Path of the socket by which a server with MASTER_KEY_SHARES is unsealed. Not set: `unseal.sock` in DATA_DIR.',
    ),
  VAULT_ADDR: keyServiceUrl.optional().describe('Address of HashiCorp Vault or OpenBao, for `vault-transit`.'),
  VAULT_NAMESPACE: z.string().min(1).optional().describe('Its namespace. Not set: the root namespace.'),
  VAULT_CACERT: z
    .string()
    .min(1)
    .optional()
    .describe("File with its certificate authorities in PEM, in place of the system's."),
  VAULT_TOKEN: z.string().min(1).optional().describe('A token that may encrypt and decrypt with the key.'),
  VAULT_TOKEN_FILE: z
    .string()
    .min(1)
    .optional()
    .describe('File with such a token, read for each call: an agent of Vault can renew it.'),
  VAULT_ROLE_ID: z.string().min(1).optional().describe('Role of AppRole, in place of a token.'),
  VAULT_SECRET_ID: z.string().min(1).optional().describe('Secret of the role.'),
  VAULT_TRANSIT_MOUNT: z
    .string()
    .regex(transitMount, 'must be a path without slashes at its ends')
    .default('transit')
    .describe('Where the transit engine is mounted.'),
  VAULT_TRANSIT_KEY: words
    .refine((names) => names.length > 0 && names.every((name) => transitName.test(name)), 'must be names of keys')
    .optional()
    .describe('Name of the transit key. Earlier ones after a comma open what they wrapped.'),
  AWS_KMS_KEY: words
    .refine(
      (names) => names.length > 0 && names.every((name) => kmsKeyArn.test(name)),
      'must be ARNs of keys, not aliases',
    )
    .optional()
    .describe('ARN of the symmetric key of AWS KMS, for `aws-kms`. Earlier ones after a comma open what they wrapped.'),
  AWS_KMS_ENDPOINT: keyServiceUrl.optional().describe('Endpoint of AWS KMS. Not set: that of the region in the ARN.'),
  PKCS11_MODULE: z
    .string()
    .regex(/^\//, 'must be a path from the root, such as /usr/lib/softhsm/libsofthsm2.so')
    .optional()
    .describe("Path of the PKCS #11 library of the HSM's vendor, for `pkcs11`."),
  PKCS11_TOKEN: z
    .string()
    .refine(
      isTokenLabel,
      `must be the label of a token: at most ${TOKEN_LABEL_BYTES_MAX} bytes, without spaces at its ends`,
    )
    .optional()
    .describe('Label of the token.'),
  PKCS11_KEY: words
    .refine((labels) => labels.length > 0, 'must be labels of keys')
    .optional()
    .describe('Label of the AES key. Earlier ones after a comma open what they wrapped.'),
  PKCS11_PIN: z.string().min(1).optional().describe('PIN of the user of the token.'),
  CVC_TTL: duration
    .refine((ttlMs) => ttlMs <= CVC_TTL_MAX_MS, 'must be at most 24h')
    .prefault(CVC_TTL_DEFAULT)
    .describe('How long a card security code lives, 24h at most; then it is gone for good.'),
};
