// What a vault file may hold: the bodies of the API's own requests, with names in place of ids.
import schemas from '../generated/schemas.json' with { type: 'json' };

/** The part of JSON Schema that the API's document uses. */
export type Shape = {
  type?: string;
  $ref?: string;
  anyOf?: Shape[];
  properties?: Record<string, Shape>;
  required?: string[];
  items?: Shape;
  additionalProperties?: Shape;
  propertyNames?: Shape;
  enum?: unknown[];
  const?: unknown;
  'x-extensible-enum'?: unknown[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  minimum?: number;
  maximum?: number;
  examples?: unknown[];
};

export const definitions = schemas as unknown as Record<string, Shape>;

const PATH_LENGTH_MAX = 1000;
/** More records of one kind than a vault takes. */
const RECORDS_MAX = 1000;

const text = (maxLength: number): Shape => ({ type: 'string', minLength: 1, maxLength });
const name = text(200);
const file = text(PATH_LENGTH_MAX);
const orNull = (shape: Shape): Shape => ({ anyOf: [shape, { type: 'null' }] });
const object = (properties: Record<string, Shape>, required: string[] = []): Shape => ({
  type: 'object',
  properties,
  required,
});

/** In place of a value: that of a variable of the environment of `apply`. Secrets are never in the file. */
const fromEnvironment = object(
  { $env: { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_]*$', examples: ['API_KEY'] } },
  ['$env'],
);

const configuration: Shape = {
  type: 'object',
  maxProperties: 25,
  propertyNames: { type: 'string', pattern: '^[\\w-]+$', maxLength: 200, examples: ['SHOP'] },
  additionalProperties: { anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }, fromEnvironment] },
};

const without = (shape: Shape, ...names: string[]): Record<string, Shape> =>
  Object.fromEntries(Object.entries(shape.properties ?? {}).filter(([each]) => !names.includes(each)));

const find = (schema: string): Shape => definitions[schema] as Shape;

const transform = (schema: string): Shape => orNull(object({ ...without(find(schema)), code_file: file }));

export const KINDS = ['application', 'formula', 'reactor', 'proxy', 'webhook'] as const;
export type Kind = (typeof KINDS)[number] | 'tenant';
export const SECTIONS = {
  application: 'applications',
  formula: 'formulas',
  reactor: 'reactors',
  proxy: 'proxies',
  webhook: 'webhooks',
} as const;

/** What a file cannot hold, with the reason: an error says it in place of "not known". */
export const REFUSED: Record<string, string> = {
  id: 'cannot be in a file: records are found by their names',
  secret: 'cannot be in a file: strongroom webhooks rotate-secret makes and shows one',
  key: 'cannot be in a file: keys are made by strongroom api-keys add',
  create_key: 'cannot be in a file: applications are made without a key, and strongroom api-keys add makes one',
  client_certificate: 'cannot be in a file, because it has a private key: set it over the API or in the console',
  note: 'cannot be in a file',
};

const items: Record<(typeof KINDS)[number], Shape> = {
  application: object(without(find('CreateApplicationRequest'), 'create_key'), ['name']),
  formula: object(
    {
      ...without(find('CreateReactorFormulaRequest'), 'id', 'note', 'type', 'code'),
      code: text(50_000),
      code_file: file,
    },
    ['name'],
  ),
  reactor: object(
    { name, formula: name, code: text(50_000), code_file: file, application: orNull(name), configuration },
    ['name'],
  ),
  proxy: object(
    {
      ...without(
        find('CreateProxyRequest'),
        'request_transforms',
        'response_transforms',
        'disable_detokenization',
        'client_certificate',
        'note',
      ),
      request_transform: transform('ProxyRequestTransformRequest'),
      response_transform: transform('ProxyTransformRequest'),
      application: orNull(name),
      configuration,
    },
    ['name'],
  ),
  webhook: object(without(find('CreateWebhookRequest')), ['name']),
};

const settings = find('SettingsOfTenant');
/** Settings that the vault knows; a tenant may have others. */
export const settingNames = Object.keys(settings.properties ?? {});

export const fileShape: Shape = object(
  {
    version: { type: 'integer', enum: [1] },
    tenant: object({ name, settings: { ...settings, properties: without(settings, 'deduplicate_tokens') } }),
    ...Object.fromEntries(
      KINDS.map((kind) => [
        SECTIONS[kind],
        { type: 'array', maxItems: RECORDS_MAX, items: items[kind] } satisfies Shape,
      ]),
    ),
  },
  ['version'],
);

/** Attributes that records of a kind have in a file. */
export const attributesOf = (kind: Kind): string[] =>
  Object.keys((kind === 'tenant' ? fileShape.properties?.['tenant'] : items[kind])?.properties ?? {});
