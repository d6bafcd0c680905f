// What people copy of a record: its id, and the request of the API for it as curl and as JavaScript.
import { html, type Html } from '../../platform/http/html.ts';
import { KEY_VARIABLE, samplesOf } from '../../platform/http/request-samples.ts';
import type { Visit } from './visit.ts';

/** A request of the API. `path` has its query. */
export type ApiCall = {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  headers?: Record<string, string>;
  json?: unknown;
};

/** Stands for the address of the API where a console with a host of its own does not know it. */
const UNKNOWN_VAULT = 'https://YOUR-VAULT';

/** URL at which clients reach the API. */
const vaultUrl = ({ ctx: { config }, request }: Visit): string =>
  config.publicUrl ?? (config.consoleHost === undefined ? `${request.protocol}://${request.host}` : UNKNOWN_VAULT);

/** A request in each language. @param call its path is below the URL of the vault. */
export const samplesFor = (
  visit: Visit,
  { method, path, headers = {}, json }: ApiCall,
): ReturnType<typeof samplesOf> => {
  const request = { method: method ?? (json === undefined ? 'GET' : 'POST'), url: vaultUrl(visit) + path };
  return samplesOf({ ...request, headers, body: json });
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
  const { curl, JavaScript } = samplesFor(visit, call);
  return html`<div class="copies"><details><summary>API call</summary>
${copyBox(`${of}id`, id)}
${copyBox(`${of}curl`, curl)}
${copyBox(`${of}JavaScript`, JavaScript)}
<p class="quiet"><code>${KEY_VARIABLE}</code> is an API key whose rights cover the request.</p></details></div>`;
};
