// Routes of /applications, the one of the calling application, and the regeneration of keys.
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, commonFailures, failures } from '../../platform/http/schemas.ts';
import {
  changeApplication,
  createApplication,
  deleteApplication,
  getApplication,
  getOwnApplication,
  listApplications,
  regenerateKey,
} from './applications.ts';
import {
  applicationChange,
  applicationChangeExamples,
  applicationExamples,
  applicationPage,
  applicationPageExamples,
  applicationParams,
  applicationQuery,
  applicationRecord,
  applicationWithKey,
  newApplication,
  newApplicationExamples,
  regenerateExamples,
} from './applications.schema.ts';
import { workOf } from './authenticate.ts';
import type { AccessContext } from './context.ts';
import { resourceRoutes } from './resource.routes.ts';

export const applicationsRoutes = (app: App, ctx: AccessContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path: '/applications',
    noun: 'application',
    plural: 'applications',
    permission: 'application',
    params: applicationParams,
    record: applicationRecord,
  });
  routes.create({
    description:
      'Creates an application with an API key, or with none by `create_key`. Only this response has the key. One more than a tenant may have is a 409. The application gets no permission that its creator does not have. A permission that the creator has only by access rules cannot be given for all tokens. No rule may apply to more tokens or show more of them than the rules of the creator. If the creator is limited to hosts, the application must be limited to some of them. Its limits must be within those of the creator. A creator with `daily_reveals` cannot give `token:read` and `token:search`, and one with `daily_uses` cannot give `token:use`.',
    body: newApplication,
    answer: 'The application, with its key.',
    examples: newApplicationExamples,
    idempotency: 'brief',
    run: createApplication,
  });
  routes.list({
    description: 'Lists the applications of the tenant, newest first.',
    query: applicationQuery,
    filter: ({ id, name, type }) => ({ ids: id, name, types: type }),
    page: applicationPage,
    examples: applicationPageExamples,
    run: listApplications,
  });
  app.get(
    '/applications/key',
    {
      config: { permission: 'authenticated' },
      schema: {
        operationId: 'getOwnApplication',
        summary: 'Read the calling application',
        description: 'Reads the application that the API key belongs to.\n\nPermission: none beyond a valid key.',
        tags: ['Applications'],
        answer: 'The application.',
        examples: applicationExamples,
        response: { 200: applicationRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getOwnApplication(ctx, workOf(request)),
  );

  routes.read({
    description: 'Reads one application, without its key.',
    examples: applicationExamples,
    run: getApplication,
  });
  routes.change({
    description:
      'Replaces name, permissions, rules, hosts and limits. `type` and the key cannot change. The application may keep its permissions and rules, and gets no others that the caller does not have. Its limits must be within those of the caller, or within those that it had. The change is effective at once, in all processes of the vault.',
    body: applicationChange,
    examples: applicationChangeExamples,
    run: changeApplication,
  });
  routes.delete({
    description:
      'Deletes an application and ends its keys, at once and in all processes of the vault. Records that it created stay.',
    run: deleteApplication,
  });
  app.post(
    '/applications/:id/regenerate',
    {
      config: { permission: 'application:update', idempotency: 'brief' },
      schema: {
        operationId: 'regenerateApplicationKey',
        summary: 'Replace all keys of an application',
        description:
          'Ends all API keys of an application, with the sessions that they created, at once and in all processes of the vault, and creates one. `keys_ended` says how many ended, and only this response has the new key. To replace one key without downtime, create another by `POST /applications/{id}/keys`, and revoke the old one when no client uses it any more. The caller must have all permissions of the application.\n\nPermission: `application:update`.',
        tags: ['Applications'],
        params: applicationParams,
        answer: 'The application, with its new key.',
        examples: regenerateExamples,
        response: { 200: applicationWithKey, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await regenerateKey(ctx, workOf(request), request.params.id)),
  );
};
