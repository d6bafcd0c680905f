// Routes of /reactor-formulas.
import type { App } from '../../platform/http/app-type.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { CodeContext } from './context.ts';
import { codeShape, exampleFormula, formulaRecord } from './formula-record.ts';
import {
  changeFormula,
  createFormula,
  deleteFormula,
  findCodeOfFormula,
  findOwnCode,
  getFormula,
  listFormulas,
  restoreFormula,
} from './formulas.ts';
import {
  formulaChange,
  formulaChangeExamples,
  formulaDraft,
  formulaExamples,
  formulaPage,
  formulaPageExamples,
  formulaParams,
  formulaQuery,
  newFormula,
  newFormulaExamples,
} from './formulas.schema.ts';
import { versionRoutes } from './versions.routes.ts';

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
