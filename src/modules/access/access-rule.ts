// Access rules: their schema and limits.
import { z } from 'zod';
import { boundSchema, type StoredBound } from './bounds.ts';
import { parseContainer } from './containers.ts';
import { optional, optionalWith } from '../../platform/base/optional.ts';
import { isPermission, notPermission, type Permission, permissions } from './permissions.ts';

/** How much of a token's data a decision shows. `default`, of a plain permission: the masked value, or the value of a token without a mask. */
export type Transform = 'redact' | 'mask' | 'reveal' | 'default';

/** How much of a token's value is shown. */
export type Visibility = 'nothing' | 'masked' | 'value';

export const RULE_PRIORITY_MAX = 10_000;
export const RULE_DESCRIPTION_LENGTH_MAX = 1_000;
/** The length of the longest id of a token, and of the longest container. */
export const CONDITION_VALUE_LENGTH_MAX = 400;
export const ruleTransforms = ['redact', 'mask', 'reveal'] as const;
export const conditionAttributes = ['id', 'container'] as const;
export const conditionOperators = ['equals', 'starts_with'] as const;
/** Each is compared for every token of a request. */
export const CONDITIONS_MAX = 25;

const container = z.string().transform((text, ctx) => {
  const parsed = parseContainer(text);
  if (parsed === undefined) ctx.addIssue('must be a container path such as /pci/high/');
  return parsed ?? z.NEVER;
});

const condition = z.object({
  attribute: z.enum(conditionAttributes),
  operator: z.enum(conditionOperators),
  value: z.string().min(1).max(CONDITION_VALUE_LENGTH_MAX),
});

const tokenPermissions = permissions.filter((each) => each.startsWith('token:'));

/** Rules are about containers, and only tokens are in containers. */
const isTokenPermission = (text: unknown): text is Permission => isPermission(text) && text.startsWith('token:');

const ruleOf = <T extends z.ZodType>(bound_to: T) =>
  z
    .object({
      description: optionalWith(z.string().max(RULE_DESCRIPTION_LENGTH_MAX), ''),
      priority: z.int().min(1).max(RULE_PRIORITY_MAX),
      container: optional(container),
      conditions: z
        .array(condition)
        .max(CONDITIONS_MAX)
        .nullish()
        // Generated clients of some languages send every list, empty ones too.
        .transform((conditions) => (conditions && conditions.length > 0 ? conditions : undefined)),
      transform: z.enum(ruleTransforms),
      permissions: z
        .array(
          z.string().refine(isTokenPermission, {
            error: ({ input }) => notPermission('a permission on tokens', input, tokenPermissions),
          }),
          'must be a list of permissions',
        )
        .min(1, 'must name a permission'),
      bound_to,
    })
    .refine((rule) => (rule.container === undefined) !== (rule.conditions === undefined), {
      error: 'must have either a container or conditions',
    })
    .refine(
      (rule) =>
        (rule as { bound_to?: unknown }).bound_to === undefined ||
        rule.permissions.every((each) => each === 'token:use'),
      {
        path: ['bound_to'],
        error: 'is for rules whose only permission is token:use',
      },
    );

/** A rule as a request has it. */
export const accessRuleSchema = ruleOf(optional(boundSchema));

/** A rule as it is stored. Its row has a MAC, so what it is bound to was checked when it was written. */
export const storedRuleSchema = ruleOf(optional(z.custom<StoredBound>()));

export type RuleCondition = z.infer<typeof condition>;

type Named<Rule extends { container: unknown; conditions: unknown; bound_to: unknown }> = Omit<
  Rule,
  'container' | 'conditions' | 'bound_to'
> &
  Partial<Pick<Rule, 'container' | 'conditions' | 'bound_to'>>;

export type AccessRule = Named<z.infer<typeof storedRuleSchema>>;

/** What a request asks for: nothing that its bound names was looked up. */
export type AskedRule = Named<z.infer<typeof accessRuleSchema>>;
