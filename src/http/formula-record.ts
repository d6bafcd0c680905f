// The formula on the wire, by itself and as a reactor embeds it.
import { z } from 'zod';
import { declaredTypes, ICON_IN_DOCUMENTS } from '../runtime/formula-fields.ts';
import { formulaStatuses, formulaTypes } from '../runtime/formulas.ts';
import { APPLICATION_ID, CREATED_AT, exampleFormula } from './openapi-examples.ts';

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });

const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

const elementFields = (example: string) => ({
  name: z.string().meta({ description: 'The name of the value. Upper and lower case are different.', example }),
  description: z.string().optional().meta({ description: 'What the value is for.', example: 'Which shop asks' }),
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
    code: z
      .string()
      .meta({ description: 'The code: JavaScript that exports one function.', example: exampleFormula.code }),
    configuration: z
      .array(configurationElement)
      .meta({ description: "The contract for the configuration of the formula's reactors." }),
    request_parameters: z.array(requestParameter).meta({
      description: 'The contract for `args` of an invocation. Without parameters the code gets any `args` as they are.',
    }),
    created_by: uuid(
      'The id of the application or user that created it. Left out where the operator did.',
      APPLICATION_ID,
    ).optional(),
    created_at: date('When it was created.'),
    modified_by: uuid('The id of the application or user that changed it last.', APPLICATION_ID).optional(),
    modified_at: date('When it was changed last.').optional(),
  })
  .meta({
    id: 'ReactorFormula',
    description:
      'Reusable code with its contracts for configuration and arguments. Reactors are its configured instances.',
  });
