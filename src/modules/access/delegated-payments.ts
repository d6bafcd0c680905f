// The tenant setting `delegated_payments`: whether agents may hand over cards, through which proxies these are charged, and who signs.
import { z } from 'zod';
import { BOUND_NAMES_MAX } from './bounds.ts';
import { parseContainer } from './containers.ts';
import { ed25519KeyForm, parseEd25519Key } from '../../platform/crypto/ed25519.ts';
import { parseJson } from '../../platform/json/json.ts';

/** Twenty proxies and five keys. */
export const DELEGATED_LENGTH_MAX = 2_000;

/** Agents change their keys one after the other. */
const SIGNING_KEYS_MAX = 5;

const NEEDED =
  'must be JSON with proxies, and container and signing_keys where they are needed, such as {"proxies":["d3f60b7c-94a1-4e28-8b5d-7a2c9e1f4063"]}';

/** What each part of it must be. */
const NEEDS = {
  proxies: `must be 1 to ${BOUND_NAMES_MAX} ids of stored proxies`,
  container: 'must be a path such as /pci/high/',
  signing_keys: `must be 1 to ${SIGNING_KEYS_MAX} Ed25519 public keys in base64url, of 43 characters each`,
} as const;

type Part = keyof typeof NEEDS;

/** A sentence about one part, with the name of the part and what it must be. */
export const DELEGATED_PROBLEM = /^must be JSON; its (\w+) (must .+)$/;

const sentenceOf = (part: unknown): string =>
  Object.hasOwn(NEEDS, String(part)) ? `must be JSON; its ${String(part)} ${NEEDS[part as Part]}` : NEEDED;

const signingKey = z.string().regex(ed25519KeyForm).transform(parseEd25519Key);

const container = z.string().transform((text, ctx) => {
  const path = parseContainer(text);
  if (path === undefined) ctx.addIssue(NEEDED);
  return path ?? z.NEVER;
});

const delegated = z.strictObject({
  proxies: z.array(z.uuid()).min(1).max(BOUND_NAMES_MAX),
  container: container.optional(),
  signing_keys: z.array(signingKey).min(1).max(SIGNING_KEYS_MAX).optional(),
});

/** Container of cards if the setting names none. */
export const DELEGATED_CONTAINER = '/pci/high/';

export type DelegatedPayments = z.output<typeof delegated>;

/** Undefined for a tenant that has no such setting. */
export const delegatedPaymentsOf = (settings: Record<string, unknown>): DelegatedPayments | undefined =>
  delegated.safeParse(parseJson(String(settings['delegated_payments'] ?? ''))).data;

/** In a request. A setting of a tenant is text. */
export const delegatedPaymentsSetting = z
  .string(NEEDED)
  .max(DELEGATED_LENGTH_MAX, `must have at most ${DELEGATED_LENGTH_MAX} characters`)
  .superRefine((text, ctx) => {
    const { error } = delegated.safeParse(parseJson(text));
    for (const part of new Set(error?.issues.map(({ path }) => path[0]))) ctx.addIssue(sentenceOf(part));
  });
