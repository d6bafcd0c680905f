// Routes of a resource: create, list, read, change and delete. Each resource gives its schemas, texts and functions.
import type { FastifyTypeProviderDefault } from 'fastify';
import type { z } from 'zod';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { patchMediaTypes, requirePatchType } from '../../platform/http/problems.ts';
import {
  bodyFailures,
  commonFailures,
  type Examples,
  failures,
  type FailureStatus,
  noContent,
} from '../../platform/http/schemas.ts';
import { type Page, pageOf, type PageRequest } from '../../platform/base/pagination.ts';
import { workOf } from './authenticate.ts';
import type { Permission } from './permissions.ts';
import type { Work } from './work.ts';

/** What a permission is for, without the operation: `tenant:member` of `tenant:member:read`. */
type PermissionArea<Of = Permission> = Of extends `${infer Area}:read` ? Area : never;

/** @template Record the schema of a record. */
type Resource<Record> = {
  /** Path of the list; a record is at `{path}/:id`. */
  path: string;
  /** In summaries, in operation ids and, in the plural, as the tag. */
  noun: string;
  plural: string;
  /** Each operation needs `{area}:{operation}`. */
  permission: PermissionArea;
  params: z.ZodType<{ id: string }>;
  record: Record;
};

/** What every operation says of itself. */
type Texts = {
  /** Without the sentence on the permission. */
  description: string;
  /** What the response has, where it is not simply the record. */
  answer?: string;
  /** Beside those of every such operation. */
  failures?: FailureStatus[];
};

type WithBody<Body> = Texts & {
  body: Body;
  examples: { request: Examples; response: Examples };
  /** Same attribute as in FastifyContextConfig. */
  idempotency?: 'brief';
};

type PageFilter = { page: number; size: number };

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `ReactorFormula` of `reactor formula`. */
const operationName = (words: string): string => words.split(' ').map(capitalized).join('');

/** @returns functions that register one route each. Each `run` is called with the context, the work and what the request has. */
export const resourceRoutes = <Ctx, Record extends z.ZodType>(app: App, ctx: Ctx, resource: Resource<Record>) => {
  const { path, noun, plural, params, record } = resource;
  type Shown = z.input<Record>;
  // Bodies and queries are of the schemas that each operation is given: the types of its `run` say so.
  const plain = app.withTypeProvider<FastifyTypeProviderDefault>();
  const onePath = `${path}/:id`;
  const aNoun = `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`;
  const permissionFor = (operation: string) => `${resource.permission}:${operation}` as Permission;
  const describe = (operation: string, { description }: Texts) => ({
    description: `${description}\n\nPermission: \`${permissionFor(operation)}\`.`,
    tags: [capitalized(plural)],
  });
  const idOf = (request: { params: unknown }): string => (request.params as { id: string }).id;

  return {
    create<Body extends z.ZodType>(
      given: WithBody<Body> & {
        /** The schema of a new record, if no later response shows all of it, such as its secret. */
        created?: z.ZodType;
        run: (ctx: Ctx, work: Work, body: z.output<Body>) => Promise<Shown>;
      },
    ): void {
      const { body, examples, idempotency, run } = given;
      plain.post(
        path,
        {
          config: { permission: permissionFor('create'), creates: path, ...(idempotency && { idempotency }) },
          schema: {
            operationId: `create${operationName(noun)}`,
            summary: `Create ${aNoun}`,
            ...describe('create', given),
            body,
            answer: given.answer ?? `The ${noun}.`,
            examples,
            response: { 201: given.created ?? record, ...failures(...bodyFailures, ...(given.failures ?? [])) },
          },
        },
        async (request, reply) => answer(reply, await run(ctx, workOf(request), request.body as z.output<Body>)),
      );
    },

    list<Query extends z.ZodType<PageFilter>, Filter>(
      given: Texts & {
        query: Query;
        /** What the query narrows the list to. */
        filter: (query: z.output<Query>) => Filter;
        page: z.ZodType;
        examples: { response: Examples };
        run: (ctx: Ctx, work: Work, input: Filter & { page: PageRequest }) => Promise<Page<Shown>>;
      },
    ): void {
      const { query: querystring, filter, page, examples, run } = given;
      plain.get(
        path,
        {
          config: { permission: permissionFor('read') },
          schema: {
            operationId: `list${operationName(plural)}`,
            summary: `List ${plural}`,
            ...describe('read', given),
            querystring,
            answer: given.answer ?? `A page of ${plural}.`,
            examples,
            response: { 200: page, ...failures(...commonFailures, ...(given.failures ?? [])) },
          },
        },
        async (request) => {
          const query = request.query as z.output<Query>;
          return run(ctx, workOf(request), { ...filter(query), page: pageOf(query) });
        },
      );
    },

    read(
      given: Texts & { examples: { response: Examples }; run: (ctx: Ctx, work: Work, id: string) => Promise<Shown> },
    ): void {
      const { examples, run } = given;
      plain.get(
        onePath,
        {
          config: { permission: permissionFor('read') },
          schema: {
            operationId: `get${operationName(noun)}`,
            summary: `Read ${aNoun}`,
            ...describe('read', given),
            params,
            answer: given.answer ?? `The ${noun}.`,
            examples,
            response: { 200: record, ...failures(...commonFailures, 404, ...(given.failures ?? [])) },
          },
        },
        async (request) => run(ctx, workOf(request), idOf(request)),
      );
    },

    change<Body extends z.ZodType>(
      given: WithBody<Body> & { run: (ctx: Ctx, work: Work, id: string, body: z.output<Body>) => Promise<Shown> },
    ): void {
      const { body, examples, idempotency, run } = given;
      plain.put(
        onePath,
        {
          config: { permission: permissionFor('update'), ...(idempotency && { idempotency }) },
          schema: {
            operationId: `update${operationName(noun)}`,
            summary: `Change ${aNoun}`,
            ...describe('update', given),
            params,
            body,
            answer: given.answer ?? `The changed ${noun}.`,
            examples,
            response: { 200: record, ...failures(...bodyFailures, 404, ...(given.failures ?? [])) },
          },
        },
        async (request, reply) =>
          answer(reply, await run(ctx, workOf(request), idOf(request), request.body as z.output<Body>)),
      );
    },

    patch<Body extends z.ZodType>(
      given: WithBody<Body> & { run: (ctx: Ctx, work: Work, id: string, body: z.output<Body>) => Promise<Shown> },
    ): void {
      const { body, examples, idempotency, run } = given;
      plain.patch(
        onePath,
        {
          config: { permission: permissionFor('update'), ...(idempotency && { idempotency }) },
          schema: {
            operationId: `patch${operationName(noun)}`,
            summary: `Change parts of ${aNoun}`,
            ...describe('update', given),
            params,
            consumes: [...patchMediaTypes],
            body,
            answer: given.answer ?? `The changed ${noun}.`,
            examples,
            response: { 200: record, ...failures(...bodyFailures, 404, ...(given.failures ?? [])) },
          },
        },
        async (request, reply) => {
          requirePatchType(request);
          return answer(reply, await run(ctx, workOf(request), idOf(request), request.body as z.output<Body>));
        },
      );
    },

    delete(given: Texts & { run: (ctx: Ctx, work: Work, id: string) => Promise<void> }): void {
      const { run } = given;
      plain.delete(
        onePath,
        {
          config: { permission: permissionFor('delete') },
          schema: {
            operationId: `delete${operationName(noun)}`,
            summary: `Delete ${aNoun}`,
            ...describe('delete', given),
            params,
            answer: `The ${noun} is deleted.`,
            response: { 204: noContent, ...failures(...commonFailures, 404, ...(given.failures ?? [])) },
          },
        },
        async (request, reply) => answer(reply, await run(ctx, workOf(request), idOf(request))),
      );
    },
  };
};
