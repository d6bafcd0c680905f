// Schemas that the check of unknown attributes reads, and schemas that it refuses when the route is registered.
import fastify from 'fastify';
import { serializerCompiler, validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '../base/errors.ts';
import { optional, optionalWith } from '../base/optional.ts';
import { refuseUnknownNames } from './strict.ts';

/** A server whose one route takes `body`. */
const serverOf = (body: z.ZodType) => {
  const app = fastify().withTypeProvider<ZodTypeProvider>();
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  app.setErrorHandler(async (error, _request, reply) => {
    if (error instanceof AppError) return reply.code(400).send(error.errors);
    throw error;
  });
  refuseUnknownNames(app);
  app.post('/', { schema: { body } }, async () => ({}));
  return app;
};

const point = z.object({ x: z.number() });

test.each<[kind: string, body: z.ZodType, value: unknown, path: string]>([
  ['an object', point, { x: 1, y: 2 }, 'y'],
  ['a list', z.array(point), [{ x: 1 }, { x: 1, y: 2 }], '[1].y'],
  ['a map', z.object({ points: z.record(z.string(), point) }), { points: { a: { x: 1, y: 2 } } }, 'points.a.y'],
  ['what may be left out or null', z.object({ at: optional(point) }), { at: { x: 1, y: 2 } }, 'at.y'],
  ['a default', z.object({ at: optionalWith(point, { x: 1 }) }), { at: { x: 1, y: 2 } }, 'at.y'],
  ['a transform', z.object({ at: point.transform(({ x }) => x) }), { at: { x: 1, y: 2 } }, 'at.y'],
  ['a pipe', z.object({ all: z.array(z.any()).pipe(z.array(point)) }), { all: [{ x: 1, y: 2 }] }, 'all[0].y'],
])('an unknown attribute in %s is refused', async (_kind, body, value, path) => {
  const app = serverOf(body);
  const answer = await app.inject({ method: 'POST', url: '/', payload: value as object });
  expect([answer.statusCode, Object.keys(answer.json())], answer.body).toEqual([400, [path]]);
  await app.close();
});

test.each([
  ['any JSON', z.object({ data: z.any() })],
  ['a map of texts', z.object({ data: z.record(z.string(), z.any()) })],
  ['an object with further attributes', z.object({ data: z.looseObject({}) })],
])('attributes in %s are free', async (_kind, body) => {
  const app = serverOf(body);
  const answer = await app.inject({ method: 'POST', url: '/', payload: { data: { anything: 1 } } });
  expect(answer.statusCode, answer.body).toBe(200);
  await app.close();
});

test('a value or a list of values is read: a union that holds no object', async () => {
  const app = serverOf(z.object({ id: z.union([z.string(), z.array(z.string())]) }));
  await app.ready();
  await app.close();
});

test.each<[kind: string, body: z.ZodType]>([
  ['union', z.union([point, z.object({ name: z.string() })])],
  ['union', z.object({ at: z.union([z.string(), point]) })],
  ['lazy', z.lazy(() => point)],
  ['prefault', point.prefault({ x: 1 })],
  ['readonly', z.array(point.readonly())],
  ['intersection', z.object({ at: z.intersection(point, point) })],
  ['tuple', z.tuple([point])],
  ['custom', z.object({ at: z.custom() })],
])('a route whose schema has a %s of objects is not registered', (kind, body) => {
  expect(() => serverOf(body)).toThrow(`of the type \`${kind}\``);
});

test.each<[kind: string, body: z.ZodType]>([
  ['refuses null', z.object({ at: z.string().optional() })],
  ['takes null for a value', z.object({ at: z.string().nullish() })],
  ['has a default', z.object({ at: z.string().default('x') })],
  ['is in a list', z.object({ all: z.array(z.object({ at: z.string().optional() })) })],
  ['is in a map', z.object({ all: z.record(z.string(), z.object({ at: z.string().optional() })) })],
])('a route with an optional attribute that %s is not registered', (_kind, body) => {
  expect(() => serverOf(body)).toThrow('in the optional attribute');
});

test('null in an optional attribute is its absence', async () => {
  const app = serverOf(z.object({ at: optional(z.string()), most: optionalWith(z.int(), 3) }));
  const answer = await app.inject({ method: 'POST', url: '/', payload: { at: null, most: null } });
  expect(answer.statusCode, answer.body).toBe(200);
  await app.close();
});
