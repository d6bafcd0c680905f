// Schemas of /reactor-formulas. formula-fields.ts has those of the fields that a request sets.
import { z } from 'zod';
import { nameQuery, onlyPage, pageQuery, pageSchema } from '../../platform/http/list-parameters.ts';
import { exampleFormula, formulaRecord } from './formula-record.ts';
import { type Examples, givenUuid, modified } from '../../platform/http/schemas.ts';
import { optional } from '../../platform/base/optional.ts';
import { formulaFields } from './formula-fields.ts';
import { formulaTypes } from './formulas.ts';
import { noteField } from './versions.schema.ts';

const { id: EXAMPLE_ID } = exampleFormula;
const bodyError = 'the body must be an object';

const fields = {
  ...formulaFields,
  note: noteField,
  type: z.enum(formulaTypes, 'must be private').meta({
    description:
      'The type of the formula: `private`. Only the operator installs `official` formulas; asking for one is a 403.',
    example: 'private',
  }),
};

const newFields = {
  id: optional(givenUuid).meta({
    description: 'An id that you choose. Left out: the vault generates one.',
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

export const formulaDraft = z.object({ code: formulaFields.code }, bodyError).meta({
  id: 'ReactorFormulaDraftRequest',
  description: 'Code to save without deploying it.',
});

export const formulaPage = pageSchema(formulaRecord, 'ReactorFormulaPage');

export const formulaParams = z.object({
  id: givenUuid.meta({ description: 'The id of a reactor formula.', example: EXAMPLE_ID }),
});

export const formulaQuery = z.object({ ...pageQuery(), name: nameQuery('Only formulas of this name.', 'Card*') });
const { name, description, type, code, configuration, request_parameters } = exampleFormula;
const asked = { name, description, type, code, configuration, request_parameters };
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
  response: { digits: { summary, value: { ...exampleFormula, ...modified } } },
};

export const formulaPageExamples: { response: Examples } = {
  response: { one: { summary: 'One formula', value: { pagination: onlyPage(1), data: [exampleFormula] } } },
};
