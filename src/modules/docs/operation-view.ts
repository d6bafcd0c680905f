// Shows one operation of the API: what it does and needs, samples of its request, its responses and errors, and a form to try it.
import { STATUS_CODES } from 'node:http';
import { html, type Html } from '../../platform/http/html.ts';
import { sampleLanguages, samplesOf } from '../../platform/http/request-samples.ts';
import { inline, prose } from './prose.ts';
import {
  examplesOf,
  isNode,
  nameOfReference,
  type Node,
  nodeOf,
  type Operation,
  type Reference,
  textOf,
} from './reference.ts';
import { anchorOf, attributeItem, schemaBlock, typeOf } from './schema-view.ts';

/** A box for text that people read and copy. Its label names the operation, since a page has many. */
const box = (label: string, text: string, isSample = false): Html =>
  html`<pre tabindex="0" role="region" aria-label="${label}"><code data-copy="Copy"${isSample && html` data-sample`}>${text}</code></pre>`;

const jsonText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

const exampleOf = ({ example, schema }: Node): unknown => {
  const { examples } = nodeOf(schema);
  return example ?? (Array.isArray(examples) ? examples[0] : undefined);
};

/** Not the trace id: a person who tries a request has none. */
const isShownInForm = ({ name }: Node): boolean => name !== 'SVC-TRACE-ID';

/** The request of the document's examples: every part of the path, what is required, and headers that have an example. */
const sampleOf = ({ method, path, parameters, body, permissions }: Operation, serverUrl: string) => {
  const of = (place: string): Node[] => parameters.filter((each) => each['in'] === place);
  const filled = of('path').reduce(
    (url, each) => url.replace(`{${textOf(each['name'])}}`, encodeURIComponent(String(exampleOf(each) ?? 'ID'))),
    path,
  );
  const query = new URLSearchParams(
    of('query')
      .filter(({ required }) => required === true)
      .map((each): [string, string] => [textOf(each['name']), String(exampleOf(each) ?? '')]),
  ).toString();
  const headers = of('header').filter((each) => exampleOf(each) !== undefined);
  return samplesOf({
    method,
    url: `${serverUrl}${filled}${query && '?'}${query}`,
    headers: Object.fromEntries(headers.map((each) => [textOf(each['name']), String(exampleOf(each))])),
    body: method === 'GET' ? undefined : body?.examples[0]?.value,
    ...(body && { contentType: body.types[0] }),
    hasKey: permissions !== undefined,
  });
};

/** One is open at a time, without script. */
const samplesBlock = (operation: Operation, serverUrl: string): Html => {
  const samples = sampleOf(operation, serverUrl);
  return html`<div class="samples">${sampleLanguages.map(
    (language, at) =>
      html`<details name="sample-${operation.id}"${at === 0 && html` open`}><summary>${language}</summary>${box(`${language}: ${operation.summary}`, samples[language], true)}</details>`,
  )}</div>`;
};

const parametersBlock = ({ parameters }: Operation): Html | undefined =>
  parameters.length === 0
    ? undefined
    : html`<h3>Parameters</h3>
<ul class="fields">${parameters.map((each) => {
        const example = each['example'];
        const schema = {
          ...nodeOf(each['schema']),
          description: each['description'],
          ...(example !== undefined && { example }),
        };
        return attributeItem(
          html`<code>${textOf(each['name'])}</code>`,
          schema,
          each['required'] === true,
          html` <span class="type">in the ${textOf(each['in'])}</span>`,
        );
      })}</ul>`;

const bodyBlock = ({ body, summary }: Operation, { resolve }: Reference): Html | undefined => {
  if (body === undefined) return undefined;
  const { schema, types, isRequired, examples } = body;
  const name = nameOfReference(schema['$ref']);
  return html`<h3>Body</h3>
<p>${types.map((type, at) => html`${at > 0 && ' or '}<code>${type}</code>`)}${name !== '' && html`: <a href="#${anchorOf(name)}">${name}</a>`}${!isRequired && ', may be left out'}</p>
${Object.keys(schema).length > 0 && schemaBlock(resolve(schema))}
${examples.map((each) => html`<details><summary>${each.summary}</summary>${box(`Body of ${summary}: ${each.summary}`, jsonText(each.value))}</details>`)}`;
};

const isSuccess = ([status]: readonly [status: string, response: Node]): boolean => /^2|^default/.test(status);

const responseBlock = (operation: Operation, [status, response]: Operation['responses'][number]): Html => {
  const [media] = Object.values(nodeOf(response['content'])).filter(isNode);
  const schema = nodeOf(media?.['schema']);
  return html`<p><span class="badge good">${status}</span> ${inline(textOf(response['description']))}${Object.keys(schema).length > 0 && html` <span class="type">${typeOf(schema)}</span>`}</p>
${examplesOf(media ?? {}).map((each) => html`<details><summary>${status}: ${each.summary}</summary>${box(`Response ${status} of ${operation.summary}: ${each.summary}`, jsonText(each.value))}</details>`)}`;
};

/** Such as `404 Not Found`. */
const statusText = (status: string): string => `${status} ${STATUS_CODES[Number(status)] ?? ''}`.trim();

const errorsBlock = ({ responses }: Operation): Html => {
  const errors = responses.filter((each) => !isSuccess(each));
  return html`<details><summary>Errors: ${errors.map(([status]) => status).join(', ')}</summary>
<ul class="fields">${errors.map(
    ([status, response]) =>
      html`<li><span class="badge bad">${statusText(status)}</span> ${inline(textOf(response['description']))}</li>\n`,
  )}</ul></details>`;
};

const formField = (parameter: Node): Html => {
  const name = textOf(parameter['name']);
  const isSecret = /proxy-key$/i.test(name);
  const example = exampleOf(parameter);
  return html`<label>${name}${parameter['required'] === true && ' (required)'}<input data-in="${textOf(parameter['in'])}" data-name="${name}"${parameter['required'] === true && html` aria-required="true"`}${
    isSecret ? html` class="secret"` : example !== undefined && html` placeholder="${String(example)}"`
  } autocomplete="off" autocapitalize="off" spellcheck="false"></label>`;
};

/** Paths of operations that take away what others may need, as each DELETE does: the page asks before it sends one. */
const TAKES_AWAY = /\/(?:delete-by-search|regenerate|rotate-key|restore)$/;

/** Shown by the script, which sends it. It is no form: without the script nothing of it may go anywhere. */
const tryBlock = (operation: Operation): Html => {
  const { id, method, path, summary, body } = operation;
  const takesBody = body !== undefined && method !== 'GET';
  const value = body?.examples[0]?.value;
  return html`<details class="try" data-try data-method="${method}" data-path="${path}"${takesBody && html` data-type="${body.types[0]}"`}${(method === 'DELETE' || TAKES_AWAY.test(path)) && html` data-asks`} hidden><summary>Try it</summary>
<div role="group" aria-label="Try it: ${summary}">
<div class="filters">${operation.parameters.filter(isShownInForm).map(formField)}</div>
${takesBody && html`<label>Body<textarea class="code" data-body autocomplete="off" spellcheck="false">${value === undefined ? '' : jsonText(value)}</textarea></label>`}
<p class="actions"><button type="button" data-send>Send ${method}</button></p>
<div data-result data-label="Response: ${id}" role="status"></div>
</div></details>`;
};

export const methodBadge = (method: string): Html =>
  html`<span class="method ${method.toLowerCase()}">${method}</span>`;

export const operationBlock = (operation: Operation, reference: Reference, serverUrl: string): Html => {
  const { id, method, path, summary, description, permissions, responses } = operation;
  return html`<section class="card operation" id="${id}" aria-labelledby="${id}-title">
<h2 id="${id}-title"><a href="#${id}">${summary}</a></h2>
<p class="address">${methodBadge(method)} <code>${path}</code>${permissions === undefined && html` <span class="badge">no key</span>`}${permissions?.map((each) => html` <span class="badge">${each}</span>`)}</p>
${prose(description)}
${samplesBlock(operation, serverUrl)}
${tryBlock(operation)}
${parametersBlock(operation)}
${bodyBlock(operation, reference)}
<h3>Responses</h3>
${responses.filter(isSuccess).map((each) => responseBlock(operation, each))}
${errorsBlock(operation)}
</section>
`;
};
