// The formula on the wire, by itself and as a reactor embeds it.
import { z } from 'zod';
import { declaredTypes, ICON_IN_DOCUMENTS } from '../runtime/formula-fields.ts';
import { formulaStatuses, formulaTypes } from '../runtime/formulas.ts';
import { APPLICATION_ID, CREATED_AT, exampleFormula } from './openapi-examples.ts';

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });

const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

const elementFields = (example: string) => ({
  name: z.string().meta({ description: 'Compared with case.', example }),
  description: z.string().optional().meta({ description: 'For people.', example: 'What it is for' }),
  type: z
    .enum(declaredTypes)
    .meta({ description: 'What its value is.', 'x-extensible-enum': [...declaredTypes], example: 'string' }),
});

const configurationElement = z
  .object(elementFields('SHOP'))
  .meta({ id: 'ConfigurationElement', description: 'A value that reactors of the formula are configured by.' });
const requestParameter = z
  .object({
    ...elementFields('card.number'),
    optional: z.boolean().meta({ description: 'Whether an invocation may leave it out.', example: false }),
  })
  .meta({ id: 'RequestParameter', description: 'A value that an invocation passes in `args`.' });

export const formulaRecord = z
  .object({
    id: uuid('The formula.', exampleFormula.id),
    name: z.string().meta({ description: 'For people.', example: exampleFormula.name }),
    description: z.string().optional().meta({ description: 'For people.', example: exampleFormula.description }),
    type: z
      .string()
      .meta({ description: 'Whose it is.', 'x-extensible-enum': [...formulaTypes], example: exampleFormula.type }),
    status: z.string().meta({
      description: 'Whether reactors can be made of it.',
      'x-extensible-enum': [...formulaStatuses],
      example: exampleFormula.status,
    }),
    icon: z.string().optional().meta({ description: 'A data URL of an image.', example: ICON_IN_DOCUMENTS }),
    code: z.string().meta({ description: 'JavaScript.', example: exampleFormula.code }),
    configuration: z
      .array(configurationElement)
      .meta({ description: "The contract for the configuration of the formula's reactors." }),
    request_parameters: z
      .array(requestParameter)
      .meta({ description: 'The contract for `args` of an invocation. Empty: anything goes.' }),
    created_by: uuid("Who made it. Left out for the operator's.", APPLICATION_ID).optional(),
    created_at: date('When it was made.'),
    modified_by: uuid('Who changed it last.', APPLICATION_ID).optional(),
    modified_at: date('When it was changed last.').optional(),
  })
  .meta({ id: 'ReactorFormula', description: 'Code with its contracts, that reactors are made of.' });
