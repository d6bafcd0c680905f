// /reactor-formulas: made, listed, read, changed, ended.
import type { Context } from '../../context.ts';
import { answer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { formulaRecord } from '../../http/formula-record.ts';
import { pageOf } from '../../http/pagination.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../http/schemas.ts';
import { changeFormula, createFormula, deleteFormula, getFormula, listFormulas } from '../../runtime/formulas.ts';
import {
  formulaChange,
  formulaChangeExamples,
  formulaExamples,
  formulaPage,
  formulaPageExamples,
  formulaParams,
  formulaQuery,
  newFormula,
  newFormulaExamples,
} from './schema.ts';

const tags = ['Reactor formulas'];

export const formulasRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/reactor-formulas',
    {
      config: { permission: 'reactor:create', creates: '/reactor-formulas' },
      schema: {
        operationId: 'createReactorFormula',
        summary: 'Create a formula',
        description:
          'Creates a formula. Code that does not compile, or exports no function, is a 422 that names line and column. The code is encrypted at rest.\n\nPermission: `reactor:create`.',
        tags,
        body: newFormula,
        answer: 'The formula.',
        examples: newFormulaExamples,
        response: { 201: formulaRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await createFormula(ctx, callerOf(request), request.body)),
  );
  app.get(
    '/reactor-formulas',
    {
      config: { permission: 'reactor:read' },
      schema: {
        operationId: 'listReactorFormulas',
        summary: 'List formulas',
        description: 'Lists official formulas and those of the tenant, newest first.\n\nPermission: `reactor:read`.',
        tags,
        querystring: formulaQuery,
        answer: 'A page of formulas.',
        examples: formulaPageExamples,
        response: { 200: formulaPage, ...failures(...commonFailures, 413) },
      },
    },
    async (request) => {
      const { query } = request;
      return listFormulas(ctx, callerOf(request), { name: query.name, page: pageOf(query) });
    },
  );
  app.get(
    '/reactor-formulas/:id',
    {
      config: { permission: 'reactor:read' },
      schema: {
        operationId: 'getReactorFormula',
        summary: 'Read a formula',
        description: 'Reads one formula: an official one, or one of the tenant.\n\nPermission: `reactor:read`.',
        tags,
        params: formulaParams,
        answer: 'The formula.',
        examples: formulaExamples,
        response: { 200: formulaRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getFormula(ctx, callerOf(request), request.params.id),
  );
  app.put(
    '/reactor-formulas/:id',
    {
      config: { permission: 'reactor:update' },
      schema: {
        operationId: 'updateReactorFormula',
        summary: 'Change a formula',
        description:
          'Replaces all of a formula of the tenant. Its reactors run the new code at once. If they have applications, the caller must hold all that these have to change the code. A configuration that no longer fits fails at the next invocation.\n\nPermission: `reactor:update`.',
        tags,
        params: formulaParams,
        body: formulaChange,
        answer: 'The changed formula.',
        examples: formulaChangeExamples,
        response: { 200: formulaRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) =>
      answer(reply, await changeFormula(ctx, callerOf(request), request.params.id, request.body)),
  );
  app.delete(
    '/reactor-formulas/:id',
    {
      config: { permission: 'reactor:delete' },
      schema: {
        operationId: 'deleteReactorFormula',
        summary: 'Delete a formula',
        description:
          'Deletes a formula of the tenant that has no reactors. With reactors it is a 409.\n\nPermission: `reactor:delete`.',
        tags,
        params: formulaParams,
        answer: 'The formula is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404, 409) },
      },
    },
    async (request, reply) => answer(reply, await deleteFormula(ctx, callerOf(request), request.params.id)),
  );
};
