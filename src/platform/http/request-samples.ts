// Writes a request to the API as a curl command, as JavaScript and as Python: for the API reference and the console's copy buttons.
// Each reads the API key from the environment, runs as it is pasted, and takes every text as data, never as code.

export type SampleRequest = {
  /** In capital letters. */
  method: string;
  /** With its scheme and host, percent-encoded. */
  url: string;
  /** Beside the API key and the content type. */
  headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. Undefined: no body. */
  body?: unknown;
  contentType?: string;
  /** Whether the operation takes an API key. True unless it says otherwise. */
  hasKey?: boolean;
};

export const sampleLanguages = ['curl', 'JavaScript', 'Python'] as const;

export type SampleLanguage = (typeof sampleLanguages)[number];

/** The environment variable that the samples take the API key from. */
export const KEY_VARIABLE = 'SVC_API_KEY';

const KEY_HEADER = 'SVC-API-KEY';

const headersOf = ({ headers = {}, body, contentType = 'application/json' }: SampleRequest): [string, string][] => [
  ...(body === undefined ? [] : [['Content-Type', contentType] satisfies [string, string]]),
  ...Object.entries(headers),
];

/** A word of a POSIX shell. Nothing in single quotes has a meaning. */
const shellWord = (text: string): string =>
  /^[\w./:@=+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** A string of JavaScript or Python. */
const quoted = (text: string): string =>
  /^[\w !#$%&()*+,./:;<=>?@^|~-]*$/.test(text) ? `'${text}'` : JSON.stringify(text);

const curlOf = (request: SampleRequest): string => {
  const { method, url, body, hasKey = true } = request;
  const isImplied = method === (body === undefined ? 'GET' : 'POST');
  return [
    `curl ${isImplied ? '' : `-X ${method} `}${shellWord(url)}`,
    ...(hasKey ? [`-H "${KEY_HEADER}: $${KEY_VARIABLE}"`] : []),
    ...headersOf(request).map(([name, value]) => `-H ${shellWord(`${name}: ${value}`)}`),
    ...(body === undefined ? [] : [`-d ${shellWord(JSON.stringify(body, null, 2))}`]),
  ].join(' \\\n  ');
};

/** Text in several lines, whose lines after the first are indented. */
const indented = (text: string, spaces: number): string => text.replaceAll('\n', `\n${' '.repeat(spaces)}`);

const scriptOf = (request: SampleRequest): string => {
  const { method, url, body, hasKey = true } = request;
  const headers = [
    ...(hasKey ? [`'${KEY_HEADER}': env.${KEY_VARIABLE},`] : []),
    ...headersOf(request).map(([name, value]) => `${quoted(name)}: ${quoted(value)},`),
  ];
  const options = [
    ...(method === 'GET' ? [] : [`method: '${method}',`]),
    ...(headers.length === 0 ? [] : [`headers: {\n  ${headers.join('\n  ')}\n},`]),
    ...(body === undefined ? [] : [`body: JSON.stringify(${JSON.stringify(body, null, 2)}),`]),
  ];
  const more = options.length === 0 ? '' : `, {\n  ${indented(options.join('\n'), 2)}\n}`;
  const imports = hasKey ? "import { env } from 'node:process';\n\n" : '';
  return `${imports}const response = await fetch(${quoted(url)}${more});
console.log(await response.text());`;
};

/** A JSON value as Python writes it. The strings of JSON are strings of Python. */
const pythonOf = (value: unknown, indent = ''): string => {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object') return JSON.stringify(value);
  const inner = `${indent}    `;
  const parts = Array.isArray(value)
    ? value.map((each) => pythonOf(each, inner))
    : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonOf(each, inner)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return parts.length === 0
    ? `${open}${close}`
    : `${open}\n${parts.map((part) => `${inner}${part},\n`).join('')}${indent}${close}`;
};

const programOf = (request: SampleRequest): string => {
  const { method, url, body, hasKey = true } = request;
  const headers = headersOf(request).map(([name, value]) => `${quoted(name)}: ${quoted(value)}`);
  const key = hasKey ? [`'${KEY_HEADER}': os.environ['${KEY_VARIABLE}']`] : [];
  const all = [...key, ...headers];
  const modules = [...(body === undefined ? [] : ['json']), ...(hasKey ? ['os'] : []), 'urllib.request'];
  return `import ${modules.join(', ')}

request = urllib.request.Request(
    ${quoted(url)},
    method='${method}',
${all.length === 0 ? '' : `    headers={\n${all.map((each) => `        ${each},\n`).join('')}    },\n`}${body === undefined ? '' : `    data=json.dumps(${pythonOf(body, '    ')}).encode(),\n`})
with urllib.request.urlopen(request) as response:
    print(response.read().decode())`;
};

/** The request in each language, ready to run. */
export const samplesOf = (request: SampleRequest): Record<SampleLanguage, string> => ({
  curl: curlOf(request),
  JavaScript: scriptOf(request),
  Python: programOf(request),
});
