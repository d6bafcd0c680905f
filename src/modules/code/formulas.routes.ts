// Routes and schemas of /reactor-formulas.
import { z } from 'zod';
import {
  type Examples,
  givenUuid,
  modified,
  nameQuery,
  onlyPage,
  pageQuery,
  pageSchema,
} from '../../platform/http/schemas.ts';
import { codeShape, exampleFormula, formulaRecord } from './formula-record.ts';
import { optional } from '../../platform/base/optional.ts';
import { formulaFields } from './formula-fields.ts';
import {
  changeFormula,
  createFormula,
  deleteFormula,
  findCodeOfFormula,
  findOwnCode,
  formulaTypes,
  getFormula,
  listFormulas,
  restoreFormula,
} from './formulas.ts';
import { noteField } from './versions.schema.ts';
import type { App } from '../../platform/http/app-type.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { CodeContext } from './context.ts';
import { versionRoutes } from './versions.routes.ts';

// Schemas of /reactor-formulas. formula-fields.ts has those of the fields that a request sets.

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

const newFormula = z
  .object(newFields, bodyError)
  .meta({ id: 'CreateReactorFormulaRequest', description: 'A formula to create.' });

const formulaChange = z.object(fields, bodyError).meta({
  id: 'UpdateReactorFormulaRequest',
  description: 'The new state of the formula, as a whole.',
});

const formulaDraft = z.object({ code: formulaFields.code }, bodyError).meta({
  id: 'ReactorFormulaDraftRequest',
  description: 'Code to save without deploying it.',
});

const formulaPage = pageSchema(formulaRecord, 'ReactorFormulaPage');

const formulaParams = z.object({
  id: givenUuid.meta({ description: 'The id of a reactor formula.', example: EXAMPLE_ID }),
});

const formulaQuery = z.object({ ...pageQuery(), name: nameQuery('Only formulas of this name.', 'Card*') });
const { name, description, type, code, configuration, request_parameters } = exampleFormula;
const asked = { name, description, type, code, configuration, request_parameters };
const summary = 'Returns the last digits of a card';

const newFormulaExamples: { request: Examples; response: Examples } = {
  request: { digits: { summary, value: asked } },
  response: { digits: { summary, value: exampleFormula } },
};

const formulaExamples: { response: Examples } = {
  response: { digits: { summary, value: exampleFormula } },
};

const formulaChangeExamples: { request: Examples; response: Examples } = {
  request: { digits: { summary, value: asked } },
  response: { digits: { summary, value: { ...exampleFormula, ...modified } } },
};

const formulaPageExamples: { response: Examples } = {
  response: { one: { summary: 'One formula', value: { pagination: onlyPage(1), data: [exampleFormula] } } },
};

/** What versions of formulas have in common, by whatever route. */
export const formulaVersions = {
  permission: 'reactor',
  restores: 'If the reactors of the formula have applications, the caller must have all permissions of these.',
  shape: codeShape,
  draft: formulaDraft,
  example: { code: exampleFormula.code },
  codeOf: ({ code }: { code: string }) => ({ code }),
  show: ({ code }: { readonly [name: string]: string }) => ({ code }),
} as const;

export const formulasRoutes = (app: App, ctx: CodeContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path: '/reactor-formulas',
    noun: 'reactor formula',
    plural: 'reactor formulas',
    permission: 'reactor',
    params: formulaParams,
    record: formulaRecord,
  });
  routes.create({
    description:
      'Creates a formula. Code that does not compile, or exports no function, is a 422 with line and column. The code is encrypted at rest. One more than a tenant may have is a 409.',
    body: newFormula,
    examples: newFormulaExamples,
    run: createFormula,
  });
  routes.list({
    description: 'Lists official formulas and those of the tenant, newest first.',
    query: formulaQuery,
    filter: ({ name }) => ({ name }),
    page: formulaPage,
    examples: formulaPageExamples,
    failures: [413],
    run: listFormulas,
  });
  routes.read({
    description: 'Reads one formula: an official one, or one of the tenant.',
    examples: formulaExamples,
    run: getFormula,
  });
  routes.change({
    description:
      'Replaces a formula of the tenant as a whole. Its reactors run the new code at once. If they have applications, the caller must have all permissions of these to change the code. A configuration that no longer fits fails at the next invocation.',
    body: formulaChange,
    examples: formulaChangeExamples,
    run: changeFormula,
  });
  routes.delete({
    description: 'Deletes a formula of the tenant that has no reactors. With reactors it is a 409.',
    failures: [409],
    run: deleteFormula,
  });
  versionRoutes<CodeContext, typeof formulaDraft>(app, ctx, {
    ...formulaVersions,
    path: '/reactor-formulas',
    noun: 'reactor formula',
    name: 'ReactorFormula',
    tag: 'Reactor formulas',
    exampleId: exampleFormula.id,
    what: 'the code of a formula of the tenant',
    find: findCodeOfFormula,
    findToChange: findOwnCode,
    restore: restoreFormula,
  });
};
