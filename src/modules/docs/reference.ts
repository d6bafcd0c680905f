// Reads the OpenAPI document as chapters of operations, for the pages of the API reference.

/** A part of the document. */
export type Node = Readonly<Record<string, unknown>>;

export type Example = { summary: string; value: unknown };

export type Operation = {
  id: string;
  /** In capital letters. */
  method: string;
  path: string;
  summary: string;
  description: string;
  /** Undefined: no API key is needed. */
  permissions: readonly string[] | undefined;
  parameters: readonly Node[];
  body: { types: readonly string[]; isRequired: boolean; schema: Node; examples: readonly Example[] } | undefined;
  /** Responses by status, without references. */
  responses: readonly (readonly [status: string, response: Node])[];
};

export type Link = { title: string; url: string };

export type Chapter = {
  name: string;
  /** Its last part of the URL. */
  slug: string;
  description: string;
  links: readonly Link[];
  operations: readonly Operation[];
};

export type Reference = {
  version: string;
  description: string;
  /** URL of the API, as the document has it. */
  serverUrl: string;
  groups: readonly { name: string; chapters: readonly Chapter[] }[];
  /** Follows a reference within the document. @throws Error where it leads nowhere. */
  resolve(node: Node): Node;
};

export const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** @returns an empty node for anything else. */
export const nodeOf = (value: unknown): Node => (isNode(value) ? value : {});

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

export const listOf = (value: unknown): readonly Node[] => (Array.isArray(value) ? value.filter(isNode) : []);

/** The name at the end of a reference such as `#/components/schemas/Token`. */
export const nameOfReference = (reference: unknown): string => textOf(reference).split('/').at(-1) ?? '';

/** The order of operations on one path. */
const METHODS = ['post', 'get', 'put', 'patch', 'delete'];

/** The examples of a body or response. */
export const examplesOf = (media: Node): Example[] => {
  const many = Object.values(nodeOf(media['examples'])).map((each) => {
    const { summary, value } = nodeOf(each);
    return { summary: textOf(summary), value };
  });
  return media['example'] === undefined ? many : [{ summary: 'An example', value: media['example'] }, ...many];
};

const createResolver =
  (document: Node) =>
  (node: Node): Node => {
    const { $ref } = node;
    if (typeof $ref !== 'string') return node;
    const found = $ref
      .split('/')
      .slice(1)
      .reduce<unknown>((at, step) => nodeOf(at)[step], document);
    if (!isNode(found)) throw new Error(`The document has no ${$ref}.`);
    return found;
  };

/** Undefined for a body without content. */
const bodyOf = (body: Node): Operation['body'] => {
  const media = Object.entries(nodeOf(body['content']));
  const [first] = media;
  if (first === undefined) return undefined;
  const content = nodeOf(first[1]);
  return {
    types: media.map(([type]) => type),
    isRequired: body['required'] === true,
    schema: nodeOf(content['schema']),
    examples: examplesOf(content),
  };
};

const operationOf = (method: string, path: string, from: Node, resolve: Reference['resolve']): Operation => ({
  id: textOf(from['operationId']),
  method: method.toUpperCase(),
  path,
  summary: textOf(from['summary']),
  description: textOf(from['description']),
  permissions: from['x-permissions'] as string[] | undefined,
  parameters: listOf(from['parameters']).map(resolve),
  body: isNode(from['requestBody']) ? bodyOf(resolve(from['requestBody'])) : undefined,
  responses: Object.entries(nodeOf(from['responses'])).map(
    ([status, each]) => [status, resolve(nodeOf(each))] as const,
  ),
});

const linksOf = (tag: Node): Link[] =>
  [tag['externalDocs'], ...listOf(tag['x-decisions'])].filter(isNode).map(({ description, url }) => ({
    title: textOf(description),
    url: textOf(url),
  }));

/** @param document as readDocument returns it. */
export const readReference = (document: Node): Reference => {
  const resolve = createResolver(document);
  const operations = Object.entries(nodeOf(document['paths'])).flatMap(([path, item]) =>
    METHODS.filter((method) => isNode(nodeOf(item)[method])).map((method) => {
      const from = nodeOf(nodeOf(item)[method]);
      return { tag: (from['tags'] as string[])[0], operation: operationOf(method, path, from, resolve) };
    }),
  );
  const tags = new Map(listOf(document['tags']).map((tag) => [textOf(tag['name']), tag]));
  const chapterOf = (name: string): Chapter => {
    const slug = name.toLowerCase().replaceAll(' ', '-');
    const own = operations.filter(({ tag }) => tag === name).map(({ operation }) => operation);
    const isNamed = ({ path }: Operation): boolean => path.startsWith(`/${slug}`);
    return {
      name,
      slug,
      description: textOf(tags.get(name)?.['description']),
      links: linksOf(tags.get(name) ?? {}),
      // The records that a chapter is named after come first.
      operations: [...own.filter(isNamed), ...own.filter((each) => !isNamed(each))],
    };
  };
  const { version, description } = nodeOf(document['info']);
  return {
    version: textOf(version),
    description: textOf(description),
    serverUrl: textOf(listOf(document['servers'])[0]?.['url']),
    groups: listOf(document['x-tagGroups']).map((group) => ({
      name: textOf(group['name']),
      chapters: (group['tags'] as string[]).map(chapterOf),
    })),
    resolve,
  };
};
