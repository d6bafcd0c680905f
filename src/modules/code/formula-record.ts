// The schema of a formula in responses, by itself and within a reactor.
import { z } from 'zod';
import { declaredTypes, ICON_IN_DOCUMENTS } from './formula-fields.ts';
import { formulaStatuses, formulaTypes } from './formulas.ts';
import { uuid, history, created } from '../../platform/http/schemas.ts';

/** What the examples of the OpenAPI document show. */
export const exampleFormula = {
  id: '9e4b7a26-5d13-4c8f-a0e7-3b6d9f2c1a58',
  name: 'Last digits',
  description: 'Tells the last digits of a card',
  type: 'private',
  status: 'verified',
  code: `module.exports = async (req) => {
  const { number } = req.args.card;
  return { raw: { shop: req.configuration.SHOP, last4: number.slice(-4) } };
};
`,
  configuration: [{ name: 'SHOP', description: 'Which shop asks', type: 'string' }],
  request_parameters: [{ name: 'card.number', description: 'The card', type: 'string', optional: false }],
  ...created,
};

const elementFields = (example: string) => ({
  name: z.string().meta({ description: 'The name of the value. Upper and lower case are different.', example }),
  description: z.string().optional().meta({ description: 'The purpose of the value.', example: 'Which shop asks' }),
  type: z
    .enum(declaredTypes)
    .meta({ description: 'The type of the value.', 'x-extensible-enum': [...declaredTypes], example: 'string' }),
});

const configurationElement = z.object(elementFields('SHOP')).meta({
  id: 'ConfigurationElement',
  description: 'A value that each reactor of the formula must have in its configuration.',
});
const requestParameter = z
  .object({
    ...elementFields('card.number'),
    optional: z.boolean().meta({ description: 'Whether an invocation may leave it out.', example: false }),
  })
  .meta({ id: 'RequestParameter', description: 'A value that an invocation passes in `args`.' });

/** The code in a version or draft. */
export const codeShape = {
  code: z
    .string()
    .meta({ description: 'The code: JavaScript that exports one function.', example: exampleFormula.code }),
};

export const formulaRecord = z
  .object({
    id: uuid('The id of the formula.', exampleFormula.id),
    name: z.string().meta({ description: 'The name of the formula.', example: exampleFormula.name }),
    description: z
      .string()
      .optional()
      .meta({ description: 'What the formula does.', example: exampleFormula.description }),
    type: z.string().meta({
      description: '`private`: of the tenant. `official`: installed by the operator, for all tenants.',
      'x-extensible-enum': [...formulaTypes],
      example: exampleFormula.type,
    }),
    status: z.string().meta({
      description: '`verified`: reactors can be created from it. `coming_soon`: not yet.',
      'x-extensible-enum': [...formulaStatuses],
      example: exampleFormula.status,
    }),
    icon: z.string().optional().meta({ description: 'An image as a data URL.', example: ICON_IN_DOCUMENTS }),
    ...codeShape,
    configuration: z
      .array(configurationElement)
      .meta({ description: "The contract for the configuration of the formula's reactors." }),
    request_parameters: z.array(requestParameter).meta({
      description: 'The contract for `args` of an invocation. Without parameters the code gets any `args` as they are.',
    }),
    ...history,
  })
  .meta({
    id: 'ReactorFormula',
    description:
      'Reusable code with its contracts for configuration and arguments. Reactors are its configured instances.',
  });
