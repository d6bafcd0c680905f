// Adds the further prefixes of a server's headers to its OpenAPI document. The committed document has SVC alone.
import { prefixedNames } from '../header-prefixes.ts';

type Node = Record<string, unknown>;

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;

/** A parameter or a security scheme of the API: a header or the key of a proxy in the query. */
const nameOf = ({ name, in: place }: Node): string | undefined =>
  typeof name === 'string' && typeof place === 'string' && /^svc-/i.test(name) ? name : undefined;

const listOf = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(' or ');

const describe = (value: unknown, prefixes: readonly string[]): unknown => {
  if (Array.isArray(value)) return value.map((each) => describe(each, prefixes));
  if (!isNode(value)) return value;
  const described: Node = Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, describe(part, prefixes)]),
  );
  const name = nameOf(value);
  if (name !== undefined)
    described['description'] =
      `${String(value['description'] ?? '')} This server takes ${listOf(prefixedNames(name, prefixes))}, too.`.trim();
  return described;
};

/** @param prefixes beside SVC, in capital letters. */
export const withPrefixes = (document: Node, prefixes: readonly string[]): Node => {
  if (prefixes.length === 0) return document;
  const { info, ...described } = describe(document, prefixes) as Node & { info: { description: string } };
  const more = `This server takes and answers headers that begin with ${listOf(prefixes.map((each) => `${each}-`))} as it does those with \`SVC-\`.`;
  return { ...described, info: { ...info, description: `${info.description}\n\n${more}` } };
};
