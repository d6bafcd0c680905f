// What people copy of a record: its id, and the request of the API for it as curl and as JavaScript.
import { html, type Html } from '../../platform/http/html.ts';
import type { Visit } from './visit.ts';

/** A request of the API. `path` has its query. */
export type ApiCall = { method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'; path: string; json?: unknown };

/** Where clients reach the API. A console with a host of its own is not the API's. */
const vaultUrl = ({ ctx, request }: Visit): string => ctx.config.publicUrl ?? `${request.protocol}://${request.host}`;

/** A word of a shell, whatever is in it: ids of tokens are free text. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const defaultMethod = ({ json }: ApiCall) => (json === undefined ? 'GET' : 'POST');

/** A command for a shell in which KEY is an API key. */
export const curlOf = (visit: Visit, call: ApiCall): string => {
  const { method = defaultMethod(call), path, json } = call;
  const verb = method === defaultMethod(call) ? '' : `-X ${method} `;
  const body =
    json === undefined ? '' : ` -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(json, null, 2))}`;
  return `curl ${verb}${quoted(vaultUrl(visit) + path)} \\\n  -H "SVC-API-KEY: $KEY"${body}`;
};

/** A module for Node, where the environment has KEY. */
export const scriptOf = (visit: Visit, call: ApiCall): string => {
  const { method = defaultMethod(call), path, json } = call;
  const type = json === undefined ? '' : `, 'Content-Type': 'application/json'`;
  const body = json === undefined ? '' : `\n  body: JSON.stringify(${JSON.stringify(json)}),`;
  return `import { env } from 'node:process';

const answer = await fetch(${JSON.stringify(vaultUrl(visit) + path)}, {
  method: '${method}',
  headers: { 'SVC-API-KEY': env.KEY${type} },${body}
});
console.log(await answer.text());`;
};

/** A text in a box, to which a script adds a button that copies it. */
export const copyBox = (label: string, text: string): Html =>
  html`<pre tabindex="0" role="region" aria-label="${label}"><code data-copy="Copy ${label}">${text}</code></pre>`;

/**
 * The id and the request of a record, in a box that opens. A script adds a button for each.
 * @param record.kind where a page has two records, to tell them apart: `formula`.
 */
export const copyMenu = (visit: Visit, { id, call, kind }: { id: string; call: ApiCall; kind?: string }): Html => {
  const of = kind === undefined ? '' : `${kind} `;
  return html`<div class="copies"><details><summary>API call</summary>
${copyBox(`${of}id`, id)}
${copyBox(`${of}curl`, curlOf(visit, call))}
${copyBox(`${of}JavaScript`, scriptOf(visit, call))}
<p class="quiet"><code>KEY</code> is an API key whose rights cover the request.</p></details></div>`;
};
