// Wire shapes of /reactor-formulas, and of the formula that a reactor embeds. What a formula may be is checked by the
// schemas of runtime/formula-fields.ts.
import { z } from 'zod';
import { APPLICATION_ID, exampleFormula } from '../../http/openapi-examples.ts';
import { nameQuery, onlyPage, pageQuery, pageSchema } from '../../http/pagination.ts';
import { formulaRecord } from '../../http/formula-record.ts';
import type { Examples } from '../../http/schemas.ts';
import { formulaFields } from '../../runtime/formula-fields.ts';
import { formulaTypes } from '../../runtime/formulas.ts';

const { id: EXAMPLE_ID } = exampleFormula;
const bodyError = 'the body must be an object';

const fields = {
  ...formulaFields,
  type: z.enum(formulaTypes, 'must be private').meta({
    description:
      'The type of the formula: `private`. Only the operator installs `official` formulas; asking for one is a 403.',
    example: 'private',
  }),
};

const newFields = {
  id: z.guid('must be a UUID').toLowerCase().optional().meta({
    description: 'An id that you choose. Left out: the vault draws one.',
    example: EXAMPLE_ID,
  }),
  ...fields,
};

export const newFormula = z
  .object(newFields, bodyError)
  .meta({ id: 'CreateReactorFormulaRequest', description: 'A formula to create.' });

export const formulaChange = z.object(fields, bodyError).meta({
  id: 'UpdateReactorFormulaRequest',
  description: 'The new state of the formula, as a whole.',
});

export const formulaPage = pageSchema(formulaRecord, 'ReactorFormulaPage');

export const formulaParams = z.object({
  id: z.guid('must be a UUID').toLowerCase().meta({ description: 'The id of a reactor formula.', example: EXAMPLE_ID }),
});

export const formulaQuery = z.object({ ...pageQuery(), name: nameQuery('Only formulas of this name.', 'Card*') });
const { name, description, type, code, configuration, request_parameters } = exampleFormula;
const asked = { name, description, type, code, configuration, request_parameters };
const changed = { modified_by: APPLICATION_ID, modified_at: '2026-11-21T09:30:00.000Z' };
const summary = 'Returns the last digits of a card';

export const newFormulaExamples: { request: Examples; response: Examples } = {
  request: { digits: { summary, value: asked } },
  response: { digits: { summary, value: exampleFormula } },
};

export const formulaExamples: { response: Examples } = {
  response: { digits: { summary, value: exampleFormula } },
};

export const formulaChangeExamples: { request: Examples; response: Examples } = {
  request: { digits: { summary, value: asked } },
  response: { digits: { summary, value: { ...exampleFormula, ...changed } } },
};

export const formulaPageExamples: { response: Examples } = {
  response: { one: { summary: 'One formula', value: { pagination: onlyPage(1), data: [exampleFormula] } } },
};
