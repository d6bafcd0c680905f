// Reads the OpenAPI document into a list of operations and named types, from which the clients for Node and Python are written.
export type Schema = { [keyword: string]: any };

export type Operation = {
  id: string;
  method: string;
  path: string;
  summary: string;
  /** Names of the path's parameters, in their order. */
  parameters: string[];
  /** What the caller gives beside them. */
  input?: { in: 'body' | 'query'; schema: Schema; isRequired: boolean };
  /** Schema of a successful answer; absent if there is none. */
  answer?: Schema;
  /** Schema of a 207 answer to a partial batch. */
  partial?: Schema;
  /** What a list holds. */
  item?: Schema;
  /** The server does it once for one idempotency key. */
  takesKey: boolean;
  /** Doing it again changes nothing. */
  isRepeatable: boolean;
  /** Texts of its body may be expressions over stored tokens. */
  readsExpressions: boolean;
};

export type Document = { paths: Record<string, Record<string, any>>; components: Record<string, Record<string, any>> };

/** POSTs that only read. */
const READS = new Set(['searchTokens', 'searchTokensByCursor', 'detokenize']);
const READ_EXPRESSIONS = new Set(['detokenize', 'invokeReactor', 'testReactor']);
/** How a description says that the names of its parameters have keys of the caller: OpenAPI has no such parameter. */
const METADATA_FILTER = '`metadata.KEY=value`';
/** Requests to destinations: clients have a function of their own for these. */
const isForwarded = (path: string): boolean => path === '/proxy' || path.startsWith('/proxy/');

export const refName = ({ $ref }: Schema): string => String($ref).split('/').at(-1) as string;

const findJson = (content: Record<string, { schema: Schema }> = {}): Schema | undefined =>
  content['application/json']?.schema;

export const readOperations = (document: Document): Operation[] => {
  const resolve = (value: Schema): Schema =>
    value['$ref'] === undefined
      ? value
      : String(value['$ref'])
          .split('/')
          .slice(1)
          .reduce((node: any, name) => node[name], document);
  const readOne = (path: string, method: string, operation: Schema): Operation => {
    const parameters = (operation['parameters'] ?? []).map(resolve) as Schema[];
    const query = parameters.filter((parameter) => parameter['in'] === 'query');
    const body = operation['requestBody'] === undefined ? undefined : resolve(operation['requestBody']);
    const answers = Object.entries<Schema>(operation['responses']).filter(([status]) => status.startsWith('2'));
    const answerOf = (wanted: (status: string) => boolean): Schema | undefined =>
      answers.filter(([status]) => wanted(status)).map(([, answer]) => findJson(resolve(answer)['content']))[0];
    const answer = answerOf((status) => status !== '207');
    const partial = answerOf((status) => status === '207');
    const page = answer && resolve(answer)['properties'];
    const takesKey = parameters.some(({ name }) => name === 'SVC-IDEMPOTENCY-KEY');
    const schemaOfQuery = {
      type: 'object',
      properties: Object.fromEntries(query.map(({ name, schema, description }) => [name, { ...schema, description }])),
      required: query.filter(({ required }) => required === true).map(({ name }) => name),
      ...(String(operation['description']).includes(METADATA_FILTER) && {
        patternProperties: { '^metadata\\.': { type: 'string' } },
      }),
    };
    const schema = findJson(body?.['content']);
    return {
      id: operation['operationId'],
      method: method.toUpperCase(),
      path,
      summary: operation['summary'] ?? '',
      parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string),
      ...(schema && { input: { in: 'body', schema, isRequired: body?.['required'] === true } }),
      ...(query.length > 0 && {
        input: { in: 'query', schema: schemaOfQuery, isRequired: schemaOfQuery.required.length > 0 },
      }),
      ...(answer && { answer }),
      ...(partial && { partial }),
      ...(page?.pagination && { item: page.data.items }),
      takesKey,
      isRepeatable: takesKey || !['post', 'put', 'patch'].includes(method) || READS.has(operation['operationId']),
      readsExpressions: READ_EXPRESSIONS.has(operation['operationId']),
    };
  };
  return Object.entries(document.paths)
    .filter(([path]) => !isForwarded(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, operation]) => operation['operationId'] !== undefined)
        .map(([method, operation]) => readOne(path, method, operation)),
    );
};

/** The bodies that a file of the command line has parts of. */
const BODIES_OF_FILES = [
  'CreateApplicationRequest',
  'CreateReactorFormulaRequest',
  'CreateReactorRequest',
  'CreateProxyRequest',
  'CreateWebhookRequest',
  'SettingsOfTenant',
];

/** @returns JSON of these schemas, and of those that they name, without their texts. */
export const writeFileSchemas = ({ components }: Document): string => {
  const found: Record<string, Schema> = {};
  const add = (name: string): void => {
    if (found[name]) return;
    const schema = components['schemas']?.[name] as Schema;
    found[name] = schema;
    for (const [, other] of JSON.stringify(schema).matchAll(/#\/components\/schemas\/(\w+)/g)) add(other as string);
  };
  BODIES_OF_FILES.forEach(add);
  const isText = (name: string, value: unknown): boolean => name === 'description' && typeof value === 'string';
  return `${JSON.stringify(found, (name, value) => (isText(name, value) ? undefined : value), 2)}\n`;
};
