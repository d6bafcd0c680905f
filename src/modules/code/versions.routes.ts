// Routes of versions and drafts, for each resource that has code: formulas, reactors by their formula, and proxies.
import type { FastifyTypeProviderDefault } from 'fastify';
import { z } from 'zod';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, commonFailures, failures, givenUuid, noContent } from '../../platform/http/schemas.ts';
import { pageOf } from '../../platform/base/pagination.ts';
import { workOf } from '../access/authenticate.ts';
import type { Work } from '../access/work.ts';
import type { CodeContext } from './context.ts';
import type { CodeResource } from './rows/code-versions.ts';
import {
  type Code,
  deleteDraft,
  getDraft,
  getVersion,
  listVersions,
  saveDraft,
  type VersionRecord,
} from './versions.ts';
import {
  draftRecord,
  restoreRequest,
  versionExamples,
  versionPage,
  versionParams,
  VERSIONS_KEPT,
  versionRecord,
  versionsQuery,
  versionWithCode,
} from './versions.schema.ts';

type Versioned<Ctx, Body extends z.ZodType> = {
  /** Path of the list of the resource, such as `/proxies`. */
  path: string;
  noun: string;
  /** In operation ids and names of schemas, such as `Proxy`. */
  name: string;
  tag: string;
  /** Each operation needs `{area}:read` or `{area}:update`. */
  permission: 'reactor' | 'proxy';
  /** A record of the resource, for the document. */
  exampleId: string;
  /** What of the resource has versions, for descriptions. */
  what: string;
  /** A sentence on what a restore needs beside the permission. */
  restores: string;
  /** The code in responses, by its property. */
  shape: z.ZodRawShape;
  /** The body that saves a draft. */
  draft: Body;
  example: object;
  codeOf: (body: z.output<Body>) => Code;
  show: (code: Code) => Record<string, unknown>;
  /** @throws notFound. */
  find: (work: Work, id: string) => Promise<CodeResource>;
  /** @throws notFound; forbidden for code that no caller can change. */
  findToChange: (work: Work, id: string) => Promise<CodeResource>;
  restore: (
    ctx: Ctx,
    work: Work,
    id: string,
    given: { number: number; note: string | undefined },
  ) => Promise<VersionRecord>;
};

export const versionRoutes = <Ctx extends CodeContext, Body extends z.ZodType>(
  app: App,
  ctx: Ctx,
  resource: Versioned<Ctx, Body>,
): void => {
  const { path, noun, name, tag, permission, what, shape } = resource;
  const id = givenUuid.meta({ description: `The id of a ${noun}.`, example: resource.exampleId });
  const params = z.object({ id });
  const ofVersion = versionParams(id);
  const examples = versionExamples(resource.example);
  const tags = [tag];
  const reading = { config: { permission: `${permission}:read` as const } };
  const changing = { config: { permission: `${permission}:update` as const } };
  const readingText = `\n\nPermission: \`${permission}:read\`.`;
  const changingText = `\n\nPermission: \`${permission}:update\`.`;

  app.get(
    `${path}/:id/versions`,
    {
      ...reading,
      schema: {
        operationId: `list${name}Versions`,
        summary: `List the versions of a ${noun}`,
        description: `Lists the deploys of ${what}, newest first, without the code. ${VERSIONS_KEPT} A change that leaves the code as it is makes no version.${readingText}`,
        tags,
        params,
        querystring: versionsQuery,
        answer: 'A page of versions.',
        examples: examples.page,
        response: { 200: versionPage, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => {
      const work = workOf(request);
      return listVersions(ctx, work, await resource.find(work, request.params.id), pageOf(request.query));
    },
  );

  app.get(
    `${path}/:id/versions/:number`,
    {
      ...reading,
      schema: {
        operationId: `get${name}Version`,
        summary: `Get a version of a ${noun}`,
        description: `Returns one deploy of ${what}, with the code.${readingText}`,
        tags,
        params: ofVersion,
        answer: 'The version.',
        examples: examples.one,
        response: { 200: versionWithCode(shape, `${name}VersionWithCode`), ...failures(...commonFailures, 404) },
      },
    },
    async (request) => {
      const work = workOf(request);
      const found = await getVersion(ctx, work, await resource.find(work, request.params.id), request.params.number);
      return { ...found.version, ...resource.show(found.code) };
    },
  );

  app.post(
    `${path}/:id/versions/:number/restore`,
    {
      config: { ...changing.config, idempotency: 'brief' },
      schema: {
        operationId: `restore${name}Version`,
        summary: `Restore a version of a ${noun}`,
        description: `Deploys the code of an earlier version, as a new version. All else stays as it is. If it is the code that runs already, there is no new version. ${resource.restores}${changingText}`,
        tags,
        params: ofVersion,
        body: restoreRequest,
        isBodyOptional: true,
        answer: 'The version that runs now.',
        examples: examples.restore,
        response: { 200: versionRecord, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => {
      const { number } = request.params;
      const note = request.body?.note ?? `Version ${number} again`;
      return answer(reply, await resource.restore(ctx, workOf(request), request.params.id, { number, note }));
    },
  );

  draftRoutes(app, ctx, resource, { params, tags, examples: examples.draft, readingText, changingText });
};

type DraftParts = {
  params: z.ZodType<{ id: string }>;
  tags: string[];
  examples: ReturnType<typeof versionExamples>['draft'];
  readingText: string;
  changingText: string;
};

const draftRoutes = <Ctx extends CodeContext, Body extends z.ZodType>(
  app: App,
  ctx: Ctx,
  resource: Versioned<Ctx, Body>,
  { params, tags, examples, readingText, changingText }: DraftParts,
): void => {
  const { path, noun, name, permission, draft, findToChange } = resource;
  const record = draftRecord(resource.shape, `${name}Draft`);
  // The body is of the schema that the resource gives: its function says so.
  const plain = app.withTypeProvider<FastifyTypeProviderDefault>();
  const url = `${path}/:id/draft`;
  const idOf = (request: { params: unknown }): string => (request.params as { id: string }).id;
  const response = { 200: record, ...failures(...commonFailures, 404) };
  const config = { permission: `${permission}:update` as const };

  plain.get(
    url,
    {
      config: { permission: `${permission}:read` },
      schema: {
        operationId: `get${name}Draft`,
        summary: `Get your draft of a ${noun}`,
        description: `Returns the code that the caller has saved and not deployed. Each member and each application has its own.${readingText}`,
        tags,
        params,
        answer: 'The draft.',
        examples: { response: examples.response },
        response,
      },
    },
    async (request) => {
      const work = workOf(request);
      const { code, modified_at } = await getDraft(ctx, work, await resource.find(work, idOf(request)));
      return { ...resource.show(code), modified_at };
    },
  );

  plain.put(
    url,
    {
      config,
      schema: {
        operationId: `save${name}Draft`,
        summary: `Save your draft of a ${noun}`,
        description: `Saves code without deploying it, in place of the draft that the caller had. The code is not compiled. A draft that is not saved again for 90 days is deleted. One more than a tenant may have is a 409.${changingText}`,
        tags,
        params,
        body: draft,
        answer: 'The draft.',
        examples,
        response: { 200: record, ...failures(...bodyFailures, 404) },
      },
    },
    async (request, reply) => {
      const work = workOf(request);
      const code = resource.codeOf(request.body as z.output<Body>);
      const saved = await saveDraft(ctx, work, await findToChange(work, idOf(request)), code);
      return answer(reply, { ...resource.show(saved.code), modified_at: saved.modified_at });
    },
  );

  plain.delete(
    url,
    {
      config,
      schema: {
        operationId: `delete${name}Draft`,
        summary: `Delete your draft of a ${noun}`,
        description: `Deletes the draft of the caller.${changingText}`,
        tags,
        params,
        answer: 'The draft is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => {
      const work = workOf(request);
      return answer(reply, await deleteDraft(ctx, work, await findToChange(work, idOf(request))));
    },
  );
};
