// /applications: made, listed, read, changed, given another key, ended.
import {
  changeApplication,
  createApplication,
  deleteApplication,
  getApplication,
  getOwnApplication,
  listApplications,
  regenerateKey,
} from '../../access/applications.ts';
import type { Context } from '../../context.ts';
import { answer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../http/schemas.ts';
import {
  applicationChange,
  applicationChangeExamples,
  applicationExamples,
  applicationPage,
  applicationPageExamples,
  applicationParams,
  applicationQuery,
  applicationRecord,
  newApplication,
  newApplicationExamples,
  regenerateExamples,
} from './schema.ts';

const tags = ['Applications'];

export const applicationsRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/applications',
    {
      config: { permission: 'application:create', creates: '/applications', idempotency: 'brief' },
      schema: {
        operationId: 'createApplication',
        summary: 'Create an application',
        description:
          'Creates an application with an API key. Only this answer has the key. The application gets nothing that its creator does not hold: a permission that the creator has by access rules alone cannot be given for all tokens, and no rule may reach further or show more than those of the creator. If the creator is narrowed to hosts, the application must be narrowed to some of them.\n\nPermission: `application:create`.',
        tags,
        body: newApplication,
        answer: 'The application, with its key.',
        examples: newApplicationExamples,
        response: { 201: applicationRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await createApplication(ctx, callerOf(request), request.body)),
  );

  app.get(
    '/applications',
    {
      config: { permission: 'application:read' },
      schema: {
        operationId: 'listApplications',
        summary: 'List applications',
        description: 'Lists the applications of the tenant, newest first.\n\nPermission: `application:read`.',
        tags,
        querystring: applicationQuery,
        answer: 'A page of applications.',
        examples: applicationPageExamples,
        response: { 200: applicationPage, ...failures(...commonFailures) },
      },
    },
    async (request) => {
      const { query } = request;
      return listApplications(ctx, callerOf(request), { ids: query.id, types: query.type, page: pageOf(query) });
    },
  );

  app.get(
    '/applications/key',
    {
      config: { permission: 'authenticated' },
      schema: {
        operationId: 'getOwnApplication',
        summary: 'Read the calling application',
        description: 'Reads the application that the API key belongs to.\n\nPermission: none beyond a valid key.',
        tags,
        answer: 'The application.',
        examples: applicationExamples,
        response: { 200: applicationRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getOwnApplication(ctx, callerOf(request)),
  );

  app.get(
    '/applications/:id',
    {
      config: { permission: 'application:read' },
      schema: {
        operationId: 'getApplication',
        summary: 'Read an application',
        description: 'Reads one application, without its key.\n\nPermission: `application:read`.',
        tags,
        params: applicationParams,
        answer: 'The application.',
        examples: applicationExamples,
        response: { 200: applicationRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getApplication(ctx, callerOf(request), request.params.id),
  );

  app.put(
    '/applications/:id',
    {
      config: { permission: 'application:update' },
      schema: {
        operationId: 'updateApplication',
        summary: 'Change an application',
        description:
          'Replaces name, permissions, rules and hosts. `type` and the key cannot change. The application may keep what it has, and gets nothing else that the caller does not hold. The change is in force at once, in every process of the vault.\n\nPermission: `application:update`.',
        tags,
        params: applicationParams,
        body: applicationChange,
        answer: 'The changed application.',
        examples: applicationChangeExamples,
        response: { 200: applicationRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) =>
      answer(reply, await changeApplication(ctx, callerOf(request), request.params.id, request.body)),
  );

  app.delete(
    '/applications/:id',
    {
      config: { permission: 'application:delete' },
      schema: {
        operationId: 'deleteApplication',
        summary: 'Delete an application',
        description:
          'Deletes an application and ends its key, at once and in every process of the vault. Records that it created stay.\n\nPermission: `application:delete`.',
        tags,
        params: applicationParams,
        answer: 'The application is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteApplication(ctx, callerOf(request), request.params.id)),
  );

  app.post(
    '/applications/:id/regenerate',
    {
      config: { permission: 'application:update', idempotency: 'brief' },
      schema: {
        operationId: 'regenerateApplicationKey',
        summary: 'Regenerate the key of an application',
        description:
          'Ends the API key of an application, at once and in every process of the vault, and creates another. Only this answer has the new key. The caller must hold all that the application has.\n\nPermission: `application:update`.',
        tags,
        params: applicationParams,
        answer: 'The application, with its new key.',
        examples: regenerateExamples,
        response: { 200: applicationRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await regenerateKey(ctx, callerOf(request), request.params.id)),
  );
};
