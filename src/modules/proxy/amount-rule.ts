// Says where the requests of a stored proxy have their amount, for bounds with an allowance
// (docs/decisions/0133-allowances.md).
import { z } from 'zod';
import { type AmountUnit, amountUnits } from '../access/allowance.ts';
import { optional } from '../../platform/base/optional.ts';
import { type DigestKey, pinDigest } from '../../platform/crypto/digest.ts';
import { sortedJson } from '../../platform/crypto/seal.ts';
import { stepsOfPath } from '../tokens/expressions/json-path.ts';
import type { CodeRule } from './code-rule.ts';

const PATH_LENGTH_MAX = 200;

const PATH_NEEDED = 'must be a JSONPath that names one place, such as $.amount';

const UNIT_NEEDED = 'must be minor, such as cents, or major';

/** One place, not the root: several amounts cannot be compared with one. */
const path = z
  .string(PATH_NEEDED)
  .max(PATH_LENGTH_MAX, PATH_NEEDED)
  .refine((text) => (stepsOfPath(text) ?? []).length > 0, PATH_NEEDED);

const texts = {
  value: {
    description: 'The place of the amount in the body of a request: a JSONPath, or of a form `$.NAME`.',
    example: '$.amount',
  },
  currency: { description: 'The place of the currency.', example: '$.currency' },
  unit: { description: '`minor`: the amount is in cents or the like. `major`: in units of the currency.' },
  merchant: { description: 'The place of the merchant. Left out: none.', example: '$.merchantAccount' },
};

/** In a request. */
export const amountRuleGiven = z
  .object(
    {
      value: path.meta(texts.value),
      currency: path.meta(texts.currency),
      unit: z.enum(amountUnits, UNIT_NEEDED).meta({ ...texts.unit, example: 'minor' }),
      merchant: optional(path).meta(texts.merchant),
    },
    'must be an object with value, currency and unit',
  )
  .meta({ id: 'AmountRuleRequest', description: 'Where a request has its amount.' });

export type AmountRule = { value: string; currency: string; unit: AmountUnit; merchant?: string | undefined };

/** In a response. */
export const amountRuleShown = z
  .object({
    value: z.string().meta(texts.value),
    currency: z.string().meta(texts.currency),
    unit: z.string().meta({ ...texts.unit, 'x-extensible-enum': [...amountUnits], example: 'minor' }),
    merchant: z.string().optional().meta(texts.merchant),
  })
  .meta({ id: 'AmountRule', description: 'Where a request has its amount.' });

/**
 * What a bound with an allowance pins beside the proxy: another place would hold another amount, and answers that keep the security
 * code give a use back.
 */
export const pinOfAmount = (
  key: DigestKey,
  { id, amount, cvc }: { id: string; amount: AmountRule | undefined; cvc: CodeRule | undefined },
): string => {
  const kept = cvc?.until === 'answered' ? ['cvc', sortedJson(cvc)] : [];
  return pinDigest(key, 'proxy', id, ['amount', sortedJson(amount ?? null), ...kept]);
};
