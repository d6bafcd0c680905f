// Routes of /proxies: create, list, read, change and delete stored proxies.
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import { resourceRoutes } from '../access/resource.routes.ts';
import type { z } from 'zod';
import { type Code } from '../code/versions.ts';
import { versionRoutes } from '../code/versions.routes.ts';
import type { ProxyContext } from './context.ts';
import { codeOf } from './proxy-input.ts';
import {
  changeProxy,
  createProxy,
  deleteProxy,
  findCodeOfProxy,
  getProxy,
  listProxies,
  patchProxy,
  restoreProxy,
  rotateProxyKey,
} from './proxies.ts';
import {
  exampleProxy,
  keyRotation,
  keyRotationExamples,
  newProxy,
  newProxyExamples,
  proxyChange,
  proxyChangeExamples,
  proxyDraft,
  proxyExamples,
  proxyPage,
  proxyPageExamples,
  proxyParams,
  proxyPatch,
  proxyPatchExamples,
  proxyQuery,
  proxyRecord,
  transformsShape,
} from './proxies.schema.ts';

const codeOfDraft = ({ request_transform, response_transform }: z.output<typeof proxyDraft>): Code =>
  codeOf({ request_transform: request_transform?.code, response_transform: response_transform?.code });

const showTransforms = (code: Code) =>
  Object.fromEntries(Object.entries(code).map(([name, text]) => [name, { code: text }]));

export const proxiesRoutes = (app: App, ctx: ProxyContext): void => {
  const routes = resourceRoutes(app, ctx, {
    path: '/proxies',
    noun: 'proxy',
    plural: 'proxies',
    permission: 'proxy',
    params: proxyParams,
    record: proxyRecord,
  });
  routes.create({
    description:
      'Creates a proxy with its own key, which clients send as `SVC-PROXY-KEY`. Destination, transforms, configuration, client certificate and key are encrypted at rest. Code that does not compile is a 422. The transforms have the permissions of the application. With `require_auth: false`, so has each client with the key of the proxy. The caller must have all permissions of the application. One more than a tenant may have is a 409.',
    body: newProxy,
    answer: 'The proxy, with its key for callers with `proxy:read`.',
    examples: newProxyExamples,
    failures: [404],
    idempotency: 'brief',
    run: createProxy,
  });
  routes.list({
    description: 'Lists the proxies of the tenant, newest first, with their keys.',
    query: proxyQuery,
    filter: ({ id, name }) => ({ ids: id, name }),
    page: proxyPage,
    examples: proxyPageExamples,
    failures: [413],
    run: listProxies,
  });
  routes.read({
    description: 'Reads one proxy, with its key.',
    examples: proxyExamples,
    run: getProxy,
  });
  routes.change({
    description:
      'Replaces a proxy as a whole, except its key. A client certificate that is left out stays. The change is effective at once, in all processes of the vault. If the proxy has an application before or after the change, the caller must have all permissions of it.',
    body: proxyChange,
    answer: 'The changed proxy, with its key for callers with `proxy:read`.',
    examples: proxyChangeExamples,
    idempotency: 'brief',
    run: changeProxy,
  });
  routes.patch({
    description:
      'Changes parts of a proxy by a JSON merge patch (RFC 7396): what is left out stays, null removes. A transform is replaced as a whole. The rules of a whole change hold.',
    body: proxyPatch,
    answer: 'The changed proxy, with its key for callers with `proxy:read`.',
    examples: proxyPatchExamples,
    idempotency: 'brief',
    run: patchProxy,
  });
  routes.delete({
    description: 'Deletes a proxy and ends its key, at once and in all processes of the vault. Its application stays.',
    run: deleteProxy,
  });
  versionRoutes<ProxyContext, typeof proxyDraft>(app, ctx, {
    path: '/proxies',
    noun: 'proxy',
    name: 'Proxy',
    tag: 'Proxies',
    permission: 'proxy',
    exampleId: exampleProxy.id,
    what: 'the transforms of a proxy',
    restores: 'If the proxy has an application, the caller must have all permissions of it.',
    shape: transformsShape,
    draft: proxyDraft,
    example: { request_transform: exampleProxy.request_transform },
    codeOf: codeOfDraft,
    show: showTransforms,
    find: findCodeOfProxy,
    findToChange: findCodeOfProxy,
    restore: restoreProxy,
  });
  app.post(
    '/proxies/:id/rotate-key',
    {
      config: { permission: 'proxy:update', idempotency: 'brief' },
      schema: {
        operationId: 'rotateProxyKey',
        summary: 'Rotate the key of a proxy',
        description:
          'Creates another key of a proxy. The replaced key ends at once, or after `grace_seconds`: until then both keys work, in all processes of the vault. A key that was replaced before ends at once. The response has the new key, whatever the caller may read. The caller must have all permissions of the application of the proxy.\n\nPermission: `proxy:update`.',
        tags: ['Proxies'],
        params: proxyParams,
        body: keyRotation,
        answer: 'The proxy, with its new key.',
        examples: keyRotationExamples,
        response: { 200: proxyRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) =>
      answer(reply, await rotateProxyKey(ctx, workOf(request), request.params.id, request.body)),
  );
};
