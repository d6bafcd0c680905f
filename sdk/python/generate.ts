// Writes the types, the operations and the methods of the client for Python from the OpenAPI document.
import { resources } from '../../packages/node/src/resources.ts';
import { type Document, type Operation, readOperations, refName, type Schema } from '../../packages/operations.ts';

const quote = (value: unknown): string => JSON.stringify(value);
const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const className = (name: string): string => name[0]?.toUpperCase() + name.slice(1);
/** Names that Python keeps for itself. */
const KEYWORDS = new Set([
  'from',
  'import',
  'class',
  'global',
  'pass',
  'in',
  'is',
  'not',
  'or',
  'and',
  'if',
  'as',
  'with',
]);
const isName = (name: string): boolean => /^[A-Za-z_]\w*$/.test(name) && !KEYWORDS.has(name);

const writeValue = (value: unknown): string => (typeof value === 'boolean' ? (value ? 'True' : 'False') : quote(value));

const isObject = (schema: Schema): boolean => schema['type'] === 'object' && schema['properties'] !== undefined;

const writeDictionary = ({ properties, additionalProperties: rest }: Schema): string =>
  `Dict[str, ${properties === undefined && typeof rest === 'object' ? writeType(rest) : 'Any'}]`;

/** A type that can be evaluated when the module is loaded. Objects without a name are dictionaries. */
const writeType = (schema: Schema): string => {
  if (schema['$ref'] !== undefined) return quote(refName(schema));
  const choices = schema['anyOf'] ?? schema['oneOf'];
  if (choices) return `Union[${choices.map(writeType).join(', ')}]`;
  const values = schema['const'] === undefined ? schema['enum'] : [schema['const']];
  if (values) return `Literal[${values.map(writeValue).join(', ')}]`;
  switch (schema['type']) {
    case 'object':
      return writeDictionary(schema);
    case 'array':
      return `List[${schema['items'] ? writeType(schema['items']) : 'Any'}]`;
    case 'integer':
      return 'int';
    case 'number':
      return 'float';
    case 'string':
      return 'str';
    case 'boolean':
      return 'bool';
    case 'null':
      return 'None';
    default:
      return 'Any';
  }
};

/** A TypedDict by its function, which takes keys that are no names; one for what is required, one for all. */
const writeObject = (name: string, schema: Schema): string => {
  const { properties = {}, required = [] } = schema;
  const members = (isWanted: (key: string) => boolean, indent: string): string =>
    Object.entries<Schema>(properties)
      .filter(([key]) => isWanted(key))
      .map(([key, property]) => `${indent}${isName(key) ? key : '#'}: ${writeType(property)}\n`)
      .join('');
  if (Object.keys(properties).every(isName)) {
    const needed = members((key) => required.includes(key), '    ');
    const others = members((key) => !required.includes(key), '    ');
    const base = needed === '' ? 'TypedDict' : `_${name}`;
    return `${needed === '' ? '' : `class _${name}(TypedDict):\n${needed}\n\n`}class ${name}(${base}, total=False):\n${others || '    pass\n'}`;
  }
  const pairs = Object.entries<Schema>(properties).map(([key, property]) => `${quote(key)}: ${writeType(property)}`);
  return `${name} = TypedDict(${quote(name)}, {${pairs.join(', ')}}, total=False)\n`;
};

const queryName = ({ id }: Operation): string => `${className(id)}Query`;

const typeOfInput = (operation: Operation): string => {
  const { input } = operation;
  if (!input) return '';
  if (input.in === 'body') return writeType(input.schema).replaceAll('"', '');
  // A TypedDict has no keys of the caller.
  const isOpen = input.schema['patternProperties'] !== undefined;
  return isOpen ? `Union[${queryName(operation)}, Mapping[str, Any]]` : queryName(operation);
};

const writeResult = ({ item, answer }: Operation, isAsync: boolean): string => {
  if (!answer) return 'None';
  const type = writeType(answer);
  const result = item ? `${isAsync ? 'Async' : ''}Listing[${writeType(item)}, ${type}]` : type;
  return result.replaceAll('"', '');
};

const writeMethod = (method: string, operation: Operation, isAsync: boolean): string => {
  const { id, parameters, input, partial, item, takesKey, summary } = operation;
  const ids = parameters.map((name) => `${name}: ${name === 'number' ? 'int' : 'str'}`);
  const given = input
    ? [`${input.in}: ${input.isRequired ? typeOfInput(operation) : `Optional[${typeOfInput(operation)}] = None`}`]
    : [];
  const options = [
    ...(takesKey ? [['idempotency_key', 'Optional[str] = None']] : []),
    ...(partial ? [['partial', 'bool = False']] : []),
    ['trace_id', 'Optional[str] = None'],
    ['timeout', 'Optional[float] = None'],
  ] as [string, string][];
  const writeHead = (types: Record<string, string>, result: string): string => {
    const named = options.map(([name, type]) => `${name}: ${types[name] ?? type}`);
    const signature = ['self', ...ids, ...given, '*', ...named].join(', ');
    return `    ${isAsync && !item ? 'async ' : ''}def ${snakeCase(method)}(${signature}) -> ${result}:`;
  };
  const passed = options.map(([name]) => `${quote(name)}: ${name}`).join(', ');
  const tuple = parameters
    .map((name) => `${name}, `)
    .join('')
    .trimEnd();
  const result = writeResult(operation, isAsync);
  const overloads: [string, string][] = partial
    ? [
        ['Literal[True]', writeType(partial).replaceAll('"', '')],
        ['bool = False', result],
      ]
    : [];
  const heads = overloads.map(([type, each]) => `    @overload\n${writeHead({ partial: type }, each)} ...\n`).join('');
  const call = `self._client.${item ? '_list' : '_call'}(${quote(id)}, (${tuple}), ${input?.in ?? 'None'}, {${passed}})`;
  return `${heads}${writeHead({}, partial ? 'Any' : result)}
        """${summary.replaceAll('"', "'")}."""
        return ${isAsync && !item ? 'await ' : ''}${call}
`;
};

const writeResources = (operations: Map<string, Operation>, isAsync: boolean): string => {
  const prefix = isAsync ? 'Async' : '';
  const classes = Object.entries(resources).map(([name, methods]) => {
    const written = Object.entries(methods).map(([method, id]) =>
      writeMethod(method, operations.get(id) as Operation, isAsync),
    );
    return `class ${prefix}${className(name)}Methods:
    def __init__(self, client: Any) -> None:
        self._client = client

${written.join('\n')}`;
  });
  const members = Object.keys(resources).map(
    (name) => `        self.${snakeCase(name)} = ${prefix}${className(name)}Methods(client)\n`,
  );
  return `${classes.join('\n\n')}

class ${prefix}Resources:
    def __init__(self, client: Any) -> None:
${members.join('')}`;
};

const writeOperation = ({ id, method, path, input, ...flags }: Operation): string => {
  const members = [
    `"method": ${quote(method)}`,
    `"path": ${quote(path)}`,
    ...(input ? [`"input": ${quote(input.in)}`] : []),
    ...(['takesKey', 'isRepeatable', 'readsExpressions'] as const)
      .filter((flag) => flags[flag])
      .map((flag) => `"${snakeCase(flag)}": True`),
  ];
  return `    ${quote(id)}: {${members.join(', ')}},\n`;
};

/** @returns the text of `strongroom/_generated.py`. */
export const writePythonApi = (document: Document): string => {
  const operations = readOperations(document);
  const schemas = Object.entries<Schema>(document.components['schemas'] ?? {});
  const objects = schemas.filter(([, schema]) => isObject(schema)).map(([name, schema]) => writeObject(name, schema));
  const queries = operations
    .filter(({ input }) => input?.in === 'query')
    .map((operation) => writeObject(queryName(operation), operation.input?.schema as Schema));
  const others = schemas
    .filter(([, schema]) => !isObject(schema))
    .map(([name, schema]) => `${name} = ${writeType(schema)}\n`);
  const byId = new Map(operations.map((operation) => [operation.id, operation]));
  return `# Generated from openapi/openapi.json by sdk/python/generate.ts.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, Mapping, Optional, TypedDict, Union, overload

if TYPE_CHECKING:
    from ._client import AsyncListing, Listing

${[...objects, ...queries, ...others].join('\n\n')}

OPERATIONS: Dict[str, Dict[str, Any]] = {
${operations.map(writeOperation).join('')}}


${writeResources(byId, false)}

${writeResources(byId, true)}`;
};
