// Writes the types and the operations of the client for Node from the OpenAPI document.
import { type Document, type Operation, readOperations, refName, type Schema } from './operations.ts';

const isName = (name: string): boolean => /^[A-Za-z_]\w*$/.test(name);
const quote = (value: unknown): string => `'${String(value).replaceAll(/['\\]/g, '\\$&')}'`;
const literal = (value: unknown): string => (typeof value === 'string' ? quote(value) : JSON.stringify(value));

const comment = ({ description }: Schema, indent: string): string =>
  description === undefined
    ? ''
    : `${indent}/** ${String(description).replaceAll('*/', '*\\/').replaceAll(/\n+/g, ` `)} */\n`;

const writeObject = (schema: Schema, indent: string): string => {
  const { properties = {}, required = [], additionalProperties, patternProperties } = schema;
  const inner = `${indent}  `;
  const members = Object.entries<Schema>(properties).map(([name, property]) => {
    const mark = required.includes(name) ? '' : '?';
    return `${comment(property, inner)}${inner}${isName(name) ? name : quote(name)}${mark}: ${writeType(property, inner)};\n`;
  });
  const rest = typeof additionalProperties === 'object' ? additionalProperties : undefined;
  if (members.length === 0) return `Record<string, ${rest ? writeType(rest, indent) : 'unknown'}>`;
  // Names of the caller's own beside those that are known: a type of both at once cannot be written for them.
  if (rest) members.push(`${inner}[name: string]: unknown;\n`);
  if (patternProperties) members.push(`${inner}[filter: \`metadata.\${string}\`]: string;\n`);
  return `{\n${members.join('')}${indent}}`;
};

const writeType = (schema: Schema, indent = ''): string => {
  if (schema['$ref'] !== undefined) return refName(schema);
  const choices = schema['anyOf'] ?? schema['oneOf'];
  if (choices) return choices.map((choice: Schema) => writeType(choice, indent)).join(' | ');
  if (schema['const'] !== undefined) return literal(schema['const']);
  if (schema['enum']) return schema['enum'].map(literal).join(' | ');
  // Texts that this version does not know may come.
  if (schema['x-extensible-enum']) return `${schema['x-extensible-enum'].map(literal).join(' | ')} | (string & {})`;
  switch (schema['type']) {
    case 'object':
      return writeObject(schema, indent);
    case 'array':
      return `Array<${schema['items'] ? writeType(schema['items'], indent) : 'unknown'}>`;
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
    case 'boolean':
    case 'null':
      return schema['type'];
    default:
      return 'unknown';
  }
};

/** A parameter that may be repeated takes one value as well. */
const writeInput = ({ in: place, schema }: NonNullable<Operation['input']>): string => {
  if (place === 'body') return writeType(schema, '  ');
  const single = (value: Schema): Schema =>
    value['type'] === 'array' ? { anyOf: [value['items'], value], description: value['description'] } : value;
  const properties = Object.entries<Schema>(schema['properties']).map(([name, value]) => [name, single(value)]);
  return writeType({ ...schema, properties: Object.fromEntries(properties) }, '  ');
};

const camelCase = (name: string): string => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

const writeOperationType = (operation: Operation): string => {
  const { id, parameters, input, answer, partial, item } = operation;
  const members = [
    `path: [${parameters.map((name) => `${camelCase(name)}: ${name === 'number' ? 'number' : 'string'}`).join(', ')}]`,
    `input: [${input ? `${input.in}${input.isRequired ? '' : '?'}: ${writeInput(input)}` : ''}]`,
    `answer: ${answer ? writeType(answer) : 'void'}`,
    ...(partial ? [`partial: ${writeType(partial)}`] : []),
    ...(item ? [`item: ${writeType(item)}`] : []),
  ];
  return `  ${id}: {\n${members.map((member) => `    ${member};\n`).join('')}  };\n`;
};

const writeOperation = ({ id, method, path, input, item, ...flags }: Operation): string => {
  const members = [
    `method: ${quote(method)}`,
    `path: ${quote(path)}`,
    ...(input ? [`input: ${quote(input.in)}`] : []),
    ...(item ? ['isList: true'] : []),
    ...(['takesKey', 'isRepeatable', 'readsExpressions'] as const)
      .filter((flag) => flags[flag])
      .map((flag) => `${flag}: true`),
  ];
  return `  ${id}: { ${members.join(', ')} },\n`;
};

/** @returns the text of `src/generated/api.ts`. */
export const writeNodeApi = (document: Document): string => {
  const operations = readOperations(document);
  const types = Object.entries<Schema>(document.components['schemas'] ?? {}).map(
    ([name, schema]) => `${comment(schema, '')}export type ${name} = ${writeType(schema)};\n`,
  );
  return `// Generated from openapi/openapi.json by packages/node-api.ts.
${types.join('\n')}
/** What each operation takes and answers. */
export type Operations = {
${operations.map(writeOperationType).join('')}};

export type OperationName = keyof Operations;

/** How each operation is sent. */
export const operations: Record<OperationName, Operation> = {
${operations.map(writeOperation).join('')}};

export type Operation = {
  method: string;
  path: string;
  /** Part of the request that has the input of the caller. */
  input?: 'body' | 'query';
  isList?: true;
  takesKey?: true;
  isRepeatable?: true;
  readsExpressions?: true;
};
`;
};
