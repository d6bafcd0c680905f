// Refuses unknown attributes and query parameters on all routes of a scope, together with all errors of the schemas. Does not
// check parts that may be any JSON.
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { FastifySchemaCompiler } from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import { type FieldError, invalidField, invalidInput } from '../base/errors.ts';
import { sentenceOf, toFieldError } from './sentences.ts';
import { NOT_SUPPORTED, UNKNOWN_NAMES_MAX, unknownName } from '../base/unknown-names.ts';
import { formatPath } from '../json/json.ts';
import type { App } from './app-type.ts';

// What published clients of the earlier API send beyond the schemas, and how the server treats it (docs/earlier-clients.md).
// Token requests have the same in modules/tokens/earlier-tokens.ts.

/** Attributes of an application: some clients send a whole one instead of its id. */
const applicationNames = [
  'tenant_id',
  'name',
  'type',
  'key',
  'keys',
  'permissions',
  'rules',
  'allowed_hosts',
  'expires_at',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
];

type Earlier = {
  /** Null counts as absent; a value is a 400. */
  notSupported?: readonly string[];
  /** Further attributes of an object, by its name. They are ignored. */
  notRead?: Readonly<Record<string, readonly string[]>>;
  /** Attributes that are the id of another attribute, unless the request has that one too. */
  idOf?: Readonly<Record<string, string>>;
  /** Null in `idOf` removes. */
  isPatch?: boolean;
};

const newApplication: Earlier = { notSupported: ['expires_at'] };
const application: Earlier = { notSupported: ['expires_at', 'create_key'] };
const reactor: Earlier = { notSupported: ['runtime'], notRead: { application: applicationNames } };
const proxy: Earlier = {
  notSupported: ['request_reactor_id', 'response_reactor_id', 'timeout', 'proxy_host'],
  notRead: { application: applicationNames },
  idOf: { application_id: 'application' },
};

/** Bodies by method and path of the operation. */
const earlierBodies: Readonly<Record<string, Earlier>> = {
  'POST /token-intents': { notSupported: ['encrypted'] },
  'POST /applications': newApplication,
  'PUT /applications/:id': application,
  'POST /reactors': reactor,
  'PUT /reactors/:id': reactor,
  'PATCH /reactors/:id': reactor,
  'POST /reactors/:id/react': { notSupported: ['callback_url'] },
  'POST /proxies': proxy,
  'PUT /proxies/:id': proxy,
  'PATCH /proxies/:id': { ...proxy, isPatch: true },
};

const earlierQueries: Readonly<Record<string, Earlier>> = {
  'GET /applications': { notSupported: ['start'] },
  'GET /applications/:id/keys': { notSupported: ['type'] },
};

// Checks the schemas of request bodies when the server starts: null in an optional attribute means that it is left out.

/** Attributes where null says something else than absence, of all operations or of one. */
const ownMeaning: ReadonlyMap<string, string> = new Map([
  ['client_certificate', 'null removes the certificate of a proxy; a change without the attribute keeps it'],
  [
    'POST /access/simulate allowed_hosts',
    'null tries the application without its limit, as a save without it would be',
  ],
]);

type Attribute = readonly [name: string, schema: z.core.$ZodType];

/** The schemas that a schema is made of, below the attributes of an object. */
const partsOf = (schema: z.core.$ZodType): readonly z.core.$ZodType[] => {
  const { def } = schema as unknown as z.core.$ZodTypes['_zod'];
  switch (def.type) {
    case 'array':
      return [def.element];
    case 'record':
      return [def.valueType];
    case 'pipe':
      return [def.in, def.out];
    case 'union':
      return def.options;
    case 'optional':
    case 'nullable':
    case 'default':
    case 'catch':
      return [def.innerType];
    default:
      return [];
  }
};

/** All attributes at any depth of a body, each with its path. */
function* walkAttributes(schema: z.core.$ZodType, path = ''): Generator<Attribute> {
  const { def } = schema as unknown as z.core.$ZodTypes['_zod'];
  if (def.type !== 'object') {
    for (const part of partsOf(schema)) yield* walkAttributes(part, path);
    return;
  }
  for (const [name, part] of Object.entries(def.shape)) {
    const place = path === '' ? name : `${path}.${name}`;
    yield [place, part];
    yield* walkAttributes(part, place);
  }
}

/**
 * `optional` in platform/base/optional.ts makes schemas that pass.
 * @throws for an optional attribute that refuses null or takes it for a value.
 */
const checkNullIsAbsence = (operation: string, body: z.core.$ZodType): void => {
  // Null in a merge patch removes (RFC 7396).
  if (operation.startsWith('PATCH ')) return;
  for (const [path, schema] of walkAttributes(body)) {
    // Any JSON has null for a value, where it is not marked as optional.
    if ((schema as z.ZodType).def.type === 'any') continue;
    const [absent, ofNull] = [undefined, null].map((value) => (schema as z.ZodType).safeParse(value));
    if (!absent?.success || ownMeaning.has(path) || ownMeaning.has(`${operation} ${path}`)) continue;
    if (!ofNull?.success || !isDeepStrictEqual(ofNull.data, absent.data))
      throw new Error(`${operation}: null in the optional attribute ${path} is not its absence. Use \`optional\`.`);
  }
};

type Path = readonly (string | number)[];
type Values = Record<string, unknown>;

/** The attributes that a schema knows, or those of the items of its list or map. Undefined where any name is valid. */
type Names = { attributes: ReadonlyMap<string, Names | undefined> } | { items: Names };

/** Sentences of ours in place of those of the library, where a schema has none. */
z.config({ customError: sentenceOf });

/** Types of schemas without attributes, or with attributes that the client chooses. */
const withoutNames: ReadonlySet<string> = new Set([
  'any',
  'boolean',
  'enum',
  'literal',
  'never',
  'null',
  'number',
  'string',
  'transform',
  'unknown',
]);

/** @throws for a type of schema that it does not know, as that would let every attribute pass. */
const namesOf = (schema: z.core.$ZodType): Names | undefined => {
  const { def } = schema as unknown as z.core.$ZodTypes['_zod'];
  switch (def.type) {
    case 'object':
      if (def.catchall) return undefined;
      return { attributes: new Map(Object.entries(def.shape).map(([name, part]) => [name, namesOf(part)])) };
    case 'array': {
      const items = namesOf(def.element);
      return items && { items };
    }
    case 'record': {
      const items = namesOf(def.valueType);
      return items && { items };
    }
    case 'pipe':
      return namesOf(def.in) ?? namesOf(def.out);
    case 'optional':
    case 'nullable':
    case 'default':
    case 'catch':
      return namesOf(def.innerType);
    case 'union':
      // The server cannot know which of several objects the client means.
      if (def.options.some((option) => namesOf(option) !== undefined)) break;
      return undefined;
    default:
      if (withoutNames.has(def.type)) return undefined;
  }
  throw new Error(`namesOf cannot read a zod schema of the type \`${def.type}\`: extend it.`);
};

const attributesOf = (names: Names | undefined): ReadonlyMap<string, Names | undefined> =>
  names && 'attributes' in names ? names.attributes : new Map();

const isObject = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Every record has these attributes, or had them in the earlier API. */
const readOnlyNames = ['id', 'tenant_id', 'created_by', 'created_at', 'modified_by', 'modified_at'];

/** Attributes that an object may have beside those of its schema. */
type Tolerated = {
  /** The names of the response at the same place. Clients send whole records back, with their read-only attributes. */
  record?: Names | undefined;
  notSupported?: readonly string[] | undefined;
  notRead?: readonly string[] | undefined;
  /** `notRead` of the objects below. */
  notReadBelow?: Earlier['notRead'];
  /** The most known names that an error lists. */
  listedMax?: number | undefined;
};

const findUnknown = (
  value: unknown,
  names: Names | undefined,
  { record, notSupported = [], notRead = [], notReadBelow, listedMax }: Tolerated,
  path: Path,
  problems: FieldError[],
): void => {
  if (!names || problems.length >= UNKNOWN_NAMES_MAX) return;
  if ('items' in names) {
    if (typeof value !== 'object' || value === null) return;
    const items = record && 'items' in record ? record.items : undefined;
    for (const [at, item] of Array.isArray(value) ? value.entries() : Object.entries(value))
      findUnknown(item, names.items, { record: items }, [...path, at], problems);
    return;
  }
  if (!isObject(value)) return;
  const answered = attributesOf(record);
  for (const [name, part] of Object.entries(value)) {
    const place = [...path, name];
    if (names.attributes.has(name)) {
      const below = { record: answered.get(name), notRead: notReadBelow?.[name] };
      findUnknown(part, names.attributes.get(name), below, place, problems);
    } else if (notSupported.includes(name)) {
      if (part !== null) problems.push({ path: formatPath(place), sentence: NOT_SUPPORTED, code: 'not_supported' });
    } else if (!answered.has(name) && !notRead.includes(name))
      problems.push({
        path: formatPath(place),
        sentence: unknownName(name, names.attributes.keys(), listedMax),
        code: 'unknown_name',
      });
    if (problems.length >= UNKNOWN_NAMES_MAX) return;
  }
};

/** The values in the form of the schema. @throws invalidInput for two different ids of one record. */
const settle = (value: unknown, { idOf = {}, isPatch = false }: Earlier): unknown => {
  if (!isObject(value)) return value;
  const settled = { ...value };
  for (const [name, target] of Object.entries(idOf)) {
    const { [name]: id } = settled;
    delete settled[name];
    if (id === null && isPatch) settled[target] ??= null;
    if (id === undefined || id === null) continue;
    const given = settled[target];
    settled[target] ??= { id };
    if (isObject(given) && given['id'] !== id) throw invalidField(name, `must be the id in \`${target}\``);
  }
  return settled;
};

/** For operations without a body. Some clients send an empty object. */
export const noBody = z.object({}).nullish().catch({});

/**
 * Call before routes are registered in the scope. Routes without a query or a body get an empty schema, so that unknown
 * parameters and attributes are refused there too.
 */
export const refuseUnknownNames = (scope: App): void => {
  const records = new Map<string, Names>();

  scope.addHook('onRoute', ({ method, url, schema }) => {
    if (!schema) return;
    schema.querystring ??= z.object({});
    if (method !== 'GET' && method !== 'HEAD') schema.body ??= noBody;
    // An unreadable schema stops the start. The stack trace has the line of its route.
    for (const part of [schema.querystring, schema.body] as (z.ZodType | undefined)[]) if (part) namesOf(part);
    if (schema.body) checkNullIsAbsence(`${String(method)} ${url}`, schema.body as z.ZodType);
    const { 200: answered, 201: made } = (schema.response ?? {}) as Record<string, z.ZodType | undefined>;
    const answer = made ?? answered;
    const record = answer && namesOf(answer);
    if (record && attributesOf(record).has('id')) records.set(`${String(method)} ${url}`, record);
  });

  const compile: FastifySchemaCompiler<z.ZodType> = (route) => {
    const { schema, method, url, httpPart } = route;
    if (httpPart !== 'body' && httpPart !== 'querystring') return validatorCompiler(route);
    const operation = `${method} ${url}`;
    const names = namesOf(schema);
    const isBody = httpPart === 'body';
    const record = isBody ? records.get(operation) : undefined;
    const earlier = (isBody ? earlierBodies : earlierQueries)[operation] ?? {};
    const tolerated: Tolerated = {
      record,
      notSupported: earlier.notSupported,
      notRead: record && readOnlyNames,
      notReadBelow: earlier.notRead,
      // Filters of a query are few, and their names are guessed.
      listedMax: isBody ? undefined : Infinity,
    };

    return (data: unknown) => {
      try {
        const settled = settle(data, earlier);
        const problems: FieldError[] = [];
        findUnknown(settled, names, tolerated, [], problems);
        const parsed = z.safeParse(schema, settled);
        if (parsed.success && problems.length === 0) return { value: parsed.data };
        const issues = (parsed.error?.issues ?? []).map((issue) => toFieldError(issue, settled));
        return { error: invalidInput([...issues, ...problems]) };
      } catch (error) {
        return { error: error as Error };
      }
    };
  };
  scope.setValidatorCompiler(compile);
};
