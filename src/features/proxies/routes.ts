// /proxies: made, listed, read, changed, ended. Used they are elsewhere.
import type { Context } from '../../context.ts';
import { answer } from '../../http/answers.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { pageOf } from '../../http/pagination.ts';
import { bodyFailures, commonFailures, failures, noContent } from '../../http/schemas.ts';
import { changeProxy, createProxy, deleteProxy, getProxy, listProxies } from '../../proxy/proxies.ts';
import {
  newProxy,
  newProxyExamples,
  proxyChange,
  proxyChangeExamples,
  proxyExamples,
  proxyPage,
  proxyPageExamples,
  proxyParams,
  proxyQuery,
  proxyRecord,
} from './schema.ts';

const tags = ['Proxies'];

export const proxiesRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/proxies',
    {
      config: { permission: 'proxy:create', creates: '/proxies', idempotency: 'brief' },
      schema: {
        operationId: 'createProxy',
        summary: 'Create a proxy',
        description:
          'Creates a proxy with a key of its own, which clients send as `SVC-PROXY-KEY`. Destination, transforms, configuration, client certificate and key are encrypted at rest. Code that does not compile is a 422. The transforms have the permissions of the application, and so has each client with the key where `require_auth` is false: the caller must hold all that the application has.\n\nPermission: `proxy:create`.',
        tags,
        body: newProxy,
        answer: 'The proxy, with its key for callers with `proxy:read`.',
        examples: newProxyExamples,
        response: { 201: proxyRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await createProxy(ctx, callerOf(request), request.body)),
  );
  app.get(
    '/proxies',
    {
      config: { permission: 'proxy:read' },
      schema: {
        operationId: 'listProxies',
        summary: 'List proxies',
        description: 'Lists the proxies of the tenant, newest first, with their keys.\n\nPermission: `proxy:read`.',
        tags,
        querystring: proxyQuery,
        answer: 'A page of proxies.',
        examples: proxyPageExamples,
        response: { 200: proxyPage, ...failures(...commonFailures, 413) },
      },
    },
    async (request) => {
      const { query } = request;
      const { id: ids, name } = query;
      return listProxies(ctx, callerOf(request), { ids, name, page: pageOf(query) });
    },
  );
  app.get(
    '/proxies/:id',
    {
      config: { permission: 'proxy:read' },
      schema: {
        operationId: 'getProxy',
        summary: 'Read a proxy',
        description: 'Reads one proxy, with its key.\n\nPermission: `proxy:read`.',
        tags,
        params: proxyParams,
        answer: 'The proxy.',
        examples: proxyExamples,
        response: { 200: proxyRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getProxy(ctx, callerOf(request), request.params.id),
  );
  app.put(
    '/proxies/:id',
    {
      config: { permission: 'proxy:update', idempotency: 'brief' },
      schema: {
        operationId: 'updateProxy',
        summary: 'Change a proxy',
        description:
          'Replaces all of a proxy but its key. A client certificate that is left out stays. The change is in force at once, in every process of the vault. Where the proxy has an application, or gets one, the caller must hold all that the application has.\n\nPermission: `proxy:update`.',
        tags,
        params: proxyParams,
        body: proxyChange,
        answer: 'The changed proxy, with its key for callers with `proxy:read`.',
        examples: proxyChangeExamples,
        response: { 200: proxyRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await changeProxy(ctx, callerOf(request), request.params.id, request.body)),
  );
  app.delete(
    '/proxies/:id',
    {
      config: { permission: 'proxy:delete' },
      schema: {
        operationId: 'deleteProxy',
        summary: 'Delete a proxy',
        description:
          'Deletes a proxy and ends its key, at once and in every process of the vault. Its application stays.\n\nPermission: `proxy:delete`.',
        tags,
        params: proxyParams,
        answer: 'The proxy is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteProxy(ctx, callerOf(request), request.params.id)),
  );
};
