// Shows JSON schemas as lists of attributes: type, whether it is required, limits, values, and what it may be one of.
// Schemas with a name are links to their place on the same page.
import { html, type Html } from '../../platform/http/html.ts';
import { inline } from './prose.ts';
import { isNode, listOf, nameOfReference, type Node, nodeOf, textOf } from './reference.ts';

/** The place of a schema on its page. */
export const anchorOf = (name: string): string => `schema-${name}`;

const linkTo = (name: string): Html => html`<a href="#${anchorOf(name)}">${name}</a>`;

const isNull = ({ type }: Node): boolean => type === 'null';

/** What a value may be one of, without null. Empty for a schema that is one thing. */
const variantsOf = (schema: Node): readonly Node[] =>
  [...listOf(schema['anyOf']), ...listOf(schema['oneOf'])].filter((each) => !isNull(each));

const mayBeNull = (schema: Node): boolean => listOf(schema['anyOf']).some(isNull);

/** The one thing that a schema may be beside null, with the schema's own description. */
const withoutNull = (schema: Node): Node => {
  const variants = variantsOf(schema);
  return variants.length === 1 ? { ...schema, ...variants[0], anyOf: undefined, oneOf: undefined } : schema;
};

const joined = (parts: readonly Html[], separator: string): Html =>
  html`${parts.map((part, at) => html`${at > 0 && separator}${part}`)}`;

/** The type in words, such as `list of Token`. */
export const typeOf = (schema: Node): Html => {
  const { $ref, type, format, items } = schema;
  if ($ref !== undefined) return linkTo(nameOfReference($ref));
  const variants = variantsOf(schema);
  if (variants.length > 0) return html`${joined(variants.map(typeOf), ' or ')}${mayBeNull(schema) && ' or null'}`;
  if (type === 'array') return html`list of ${isNode(items) ? typeOf(items) : 'any JSON'}`;
  if (type === undefined) return html`any JSON`;
  return html`${[type].flat().join(' or ')}${typeof format === 'string' && ` (${format})`}`;
};

/** Such as `1 to 400 characters`. */
const range = (least: unknown, most: unknown, unit: string): string[] => {
  if (least === undefined && most === undefined) return [];
  if (least === most) return [`exactly ${String(least)}${unit}`];
  if (most === undefined) return [`at least ${String(least)}${unit}`];
  return [least === undefined ? `at most ${String(most)}${unit}` : `${String(least)} to ${String(most)}${unit}`];
};

const shownValue = (value: unknown): Html =>
  html`<code>${typeof value === 'string' ? value : JSON.stringify(value)}</code>`;

const valuesOf = (values: unknown): Html[] => (Array.isArray(values) ? values.map(shownValue) : []);

/** Limits and values of a schema, each a part of a line. */
const limitsOf = (given: Node): Html[] => {
  const schema = withoutNull(given);
  const { enum: values, 'x-extensible-enum': known, pattern, default: byDefault } = schema;
  const names = nodeOf(schema['propertyNames']);
  const lengths = [
    ...range(schema['minLength'], schema['maxLength'], ' characters'),
    ...range(schema['minimum'], schema['maximum'], ''),
    ...range(schema['minItems'], schema['maxItems'], ' items'),
    ...range(schema['minProperties'], schema['maxProperties'], ' attributes'),
    ...range(names['minLength'], names['maxLength'], ' characters in a name'),
    ...(schema['uniqueItems'] === true ? ['no item twice'] : []),
    ...(schema['additionalProperties'] === false ? ['no other attributes'] : []),
  ].map((text) => html`${text}`);
  return [
    ...lengths,
    ...(schema['const'] === undefined ? [] : [html`always ${shownValue(schema['const'])}`]),
    ...(values === undefined ? [] : [html`one of ${joined(valuesOf(values), ', ')}`]),
    ...(known === undefined ? [] : [html`one of ${joined(valuesOf(known), ', ')}, and later ones`]),
    ...(pattern === undefined ? [] : [html`in the form ${shownValue(pattern)}`]),
    ...(byDefault === undefined ? [] : [html`${shownValue(byDefault)} if left out`]),
    ...(isNode(schema['items']) ? limitsOf(schema['items']).map((limit) => html`each ${limit}`) : []),
  ];
};

const limitsLine = (schema: Node): Html | undefined => {
  const limits = limitsOf(schema);
  return limits.length === 0 ? undefined : html`<p class="limits">${joined(limits, '; ')}</p>`;
};

const exampleLine = ({ examples, example }: Node): Html | undefined => {
  const value = Array.isArray(examples) ? examples[0] : example;
  if (value === undefined || isNode(value) || Array.isArray(value)) return undefined;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.includes('\n') ? undefined : html`<p class="limits">Example: <code>${text}</code></p>`;
};

/** An attribute, a parameter or a header: its name, what it is, and what is in it. */
export const attributeItem = (name: Html, schema: Node, isRequired: boolean, more?: Html): Html =>
  html`<li>${name} <span class="type">${typeOf(schema)}</span>${isRequired && html` <span class="badge warn">required</span>`}${more}
${textOf(schema['description']) !== '' && html`<p>${inline(textOf(schema['description']))}</p>`}${limitsLine(schema)}${exampleLine(schema)}${contentOf(schema)}</li>\n`;

const attributesOf = (schema: Node): Html[] => {
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const items = Object.entries(nodeOf(schema['properties'])).map(([name, each]) =>
    attributeItem(html`<code>${name}</code>`, nodeOf(each), required.includes(name)),
  );
  const others = schema['additionalProperties'];
  if (isNode(others) && Object.keys(others).length > 0)
    items.push(attributeItem(html`<em>any name</em>`, others, false));
  return items;
};

/** What is in a value that has no name of its own: attributes of objects, of the items of a list, and of what it may be one of. */
const contentOf = (given: Node): Html | undefined => {
  const schema = withoutNull(given);
  if (schema['$ref'] !== undefined) return undefined;
  const attributes = attributesOf(schema);
  if (attributes.length > 0) return html`<ul class="fields">${attributes}</ul>`;
  if (isNode(schema['items'])) return contentOf(schema['items']);
  const variants = variantsOf(schema)
    .map((variant) => ({ variant, content: contentOf(variant) ?? limitsLine(variant) }))
    .filter(({ content }) => content !== undefined);
  if (variants.length === 0) return undefined;
  return html`<ul class="fields">${variants.map(({ variant, content }) => html`<li><span class="type">${typeOf(variant)}</span>${content}</li>`)}</ul>`;
};

/** The values of the attribute that tells variants apart, by the name of the variant. */
const selectorsOf = ({ discriminator }: Node): Map<string, string[]> => {
  const { mapping } = nodeOf(discriminator);
  const entries = Object.entries(nodeOf(mapping)).map(
    ([value, reference]) => [nameOfReference(reference), value] as const,
  );
  return new Map(
    [...Map.groupBy(entries, ([name]) => name)].map(([name, all]) => [name, all.map(([, value]) => value)]),
  );
};

/** A whole schema. */
export const schemaBlock = (schema: Node): Html => {
  const selectors = selectorsOf(schema);
  const { propertyName } = nodeOf(schema['discriminator']);
  const variants = variantsOf(schema).filter(({ $ref }) => $ref !== undefined);
  const description = textOf(schema['description']);
  return html`${description !== '' && html`<p>${inline(description)}</p>`}${limitsLine(schema)}${
    variants.length > 1
      ? html`<ul class="fields">${variants.map(({ $ref }) => {
          const name = nameOfReference($ref);
          const values = selectors.get(name) ?? [];
          return html`<li><span class="type">${linkTo(name)}</span>${values.length > 0 && html` if <code>${propertyName as string}</code> is ${joined(values.map(shownValue), ' or ')}`}</li>`;
        })}</ul>`
      : (contentOf(schema) ?? html`<p class="limits">${typeOf(schema)}</p>`)
  }`;
};

/** The names of all schemas that values refer to, and those that these refer to, sorted. */
export const namesUsedBy = (values: unknown, resolve: (node: Node) => Node): string[] => {
  const names = new Set<string>();
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (!isNode(value)) return undefined;
    const { $ref, examples: _, example: __, discriminator: ___, ...rest } = value;
    if (typeof $ref === 'string') {
      const name = nameOfReference($ref);
      const isSchema = $ref.startsWith('#/components/schemas/');
      if (isSchema && names.has(name)) return undefined;
      if (isSchema) names.add(name);
      visit(resolve(value));
    }
    return Object.values(rest).forEach(visit);
  };
  visit(values);
  return [...names].toSorted();
};
