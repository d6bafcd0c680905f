// Stored proxies, and requests through the proxy: what would be sent, and sending it.
import type { Command } from 'commander';
import { TIMEOUT_SECONDS } from '../../../../src/platform/base/times.ts';
import type { Proxy, Strongroom } from '@strongroom/node';
import { collect, define, defineGroup, oneOf, type Scope, wholeNumber } from '../define.ts';
import { CliError, usageError } from '../exit-codes.ts';
import { findRecord, readAll } from '../find.ts';
import { readJsonOption, readText } from '../input.ts';
import { cleanText, type Io } from '../io.ts';

const SIZE = 100;

type CreateOptions = {
  url: string;
  open?: boolean;
  expressions?: 'on' | 'off';
  requestTransform?: string;
  responseTransform?: string;
  application?: string;
  configuration?: string;
  allowedHost?: string[];
  seconds?: number;
};

const readTransform = async (io: Io, file: string | undefined) =>
  file === undefined ? undefined : { code: await readText(io, file) };

const addCreate = (scope: Scope, group: Command): void =>
  define<CreateOptions>(scope, group, {
    signature: 'create <name>',
    summary: 'creates a stored proxy, and prints it with its key',
    options: [
      ['--url <url>', 'where requests go, such as https://api.example.com/v1'],
      ['--open', 'also clients without an API key may use it, by its key'],
      ['--expressions <on|off>', 'whether braces in requests are expressions; on if not given', oneOf('on', 'off')],
      ['--request-transform <file>', 'code that changes requests'],
      ['--response-transform <file>', 'code that changes responses'],
      ['--application <name>', 'application whose permissions the transforms have'],
      [
        '--configuration <json>',
        'values for the transforms, or @FILE, which keeps secrets out of the list of processes',
      ],
      ['--allowed-host <host>', 'host that it may send to; may be repeated', collect],
      [
        '--seconds <n>',
        'how long the destination has to answer',
        wholeNumber(TIMEOUT_SECONDS.least, TIMEOUT_SECONDS.most),
      ],
    ],
    run: async ({ io, args: [name = ''], options, openVault }) => {
      const { url, open, expressions, application, configuration, allowedHost, seconds } = options;
      if (url === undefined) throw usageError('The option --url is needed.');
      const vault = await openVault();
      const given =
        configuration === undefined ? undefined : await readJsonOption(io, configuration, '--configuration');
      const proxy = await vault.proxies.create({
        name,
        destination_url: url,
        require_auth: open ? false : undefined,
        expressions,
        request_transform: await readTransform(io, options.requestTransform),
        response_transform: await readTransform(io, options.responseTransform),
        application:
          application === undefined
            ? undefined
            : { id: (await findRecord(vault.applications, 'application', application)).id },
        configuration: given as Record<string, unknown> | undefined,
        allowed_hosts: allowedHost,
        timeout_seconds: seconds,
      });
      io.show(proxy);
    },
  });

type RequestOptions = { proxy?: string; method?: string; header?: string[]; data?: string; include?: boolean };

export type SentRequest = { url: string; method: string; headers: [name: string, value: string][]; body?: string };

const readHeader = (text: string): [string, string] => {
  const at = text.indexOf(':');
  if (at < 1) throw usageError("A header must be 'NAME: VALUE'.");
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
};

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** @throws CliError. */
const checkTarget = (url: string, proxy: string | undefined): void => {
  if (proxy !== undefined && !url.startsWith('/'))
    throw usageError('With --proxy the URL is a path, such as /charges: the proxy has the rest.');
  if (proxy === undefined && !url.startsWith('https://'))
    throw usageError('The URL must begin with https://, or be a path such as /charges with --proxy NAME.');
};

const readRequest = async (io: Io, url: string, options: RequestOptions): Promise<SentRequest> => {
  checkTarget(url, options.proxy);
  const { method, header = [], data } = options;
  const body = data?.startsWith('@') ? await readText(io, data.slice(1)) : data;
  const headers = header.map(readHeader);
  // JSON is said to be JSON, so that the vault finds the expressions in it.
  const isTyped = headers.some(([name]) => name.toLowerCase() === 'content-type');
  if (body !== undefined && !isTyped && isJson(body)) headers.push(['content-type', 'application/json']);
  return { url, method: method ?? (body === undefined ? 'GET' : 'POST'), headers, ...(body !== undefined && { body }) };
};

const REQUEST_OPTIONS = [
  ['--proxy <name>', 'stored proxy; the URL is then a path, such as /charges'],
  ['-X, --method <method>', 'GET, or POST with a body, if not given'],
  ['-H, --header <name: value>', 'header of the request; may be repeated', collect],
  ['-d, --data <text>', 'body of the request, or @FILE, or @- for standard input'],
] as const;

const findProxy = async (vault: Strongroom, name: string | undefined): Promise<Proxy | undefined> =>
  name === undefined ? undefined : findRecord(vault.proxies, 'proxy', name);

export const addProxies = (scope: Scope, program: Command): void => {
  const group = defineGroup(program, 'proxy', 'stored proxies, and requests through the proxy');
  define(scope, group, {
    signature: 'list',
    summary: 'lists the stored proxies',
    run: async ({ io, openVault }) =>
      io.list(await readAll((await openVault()).proxies.list({ size: SIZE })), [
        ['id', ({ id }) => id],
        ['name', ({ name }) => name],
        ['destination', ({ destination_url }) => destination_url],
        ['api key', ({ require_auth }) => (require_auth ? 'needed' : 'not needed')],
      ]),
  });
  addCreate(scope, group);
  define<RequestOptions>(scope, group, {
    signature: 'preview <url>',
    summary: 'shows a request with masks in place of the values of tokens, and sends nothing',
    more:
      'Each token is read once, as the key may read it: that is in the log, and counts as a reveal where the key sees values.\n' +
      'Values are not printed. XXXX stands for one without a mask. Code of a request transform does not run.',
    options: REQUEST_OPTIONS,
    run: async ({ io, args: [url = ''], options, openVault }) => {
      const vault = await openVault();
      const request = await readRequest(io, url, options);
      const { previewRequest } = await import('../preview.ts');
      const { lines, record } = await previewRequest(vault, request, await findProxy(vault, options.proxy));
      if (io.json) io.show(record);
      else lines.forEach((line) => io.print(cleanText(line, '\n\t')));
    },
  });
  define<RequestOptions>(scope, group, {
    signature: 'call <url>',
    summary: 'sends a request through the vault, and prints the response of the destination',
    more: 'A text in double braces is an expression: do not pass it texts of others. Exits with 1 for a status of 400 or more.',
    options: [...REQUEST_OPTIONS, ['-i, --include', 'also prints the status and the headers']],
    run: async ({ io, args: [url = ''], options, openVault }) => {
      const vault = await openVault();
      const { method, headers, body } = await readRequest(io, url, options);
      const proxyKey = (await findProxy(vault, options.proxy))?.key;
      if (options.proxy !== undefined && proxyKey === undefined)
        throw new CliError('The key of the proxy is not shown to this API key: it needs the permission proxy:read.');
      const response = await vault.proxy.fetch(url, { method, headers, body, proxyKey });
      const text = await response.text();
      const shown = [...response.headers].filter(([name]) => name !== 'transfer-encoding');
      if (io.json) io.show({ status: response.status, headers: Object.fromEntries(shown), body: text });
      else {
        if (options.include) {
          io.print(`HTTP ${response.status}`);
          for (const [name, value] of shown) io.print(cleanText(`${name}: ${value}`));
          io.print('');
        }
        io.print(cleanText(text, '\n\r\t').replace(/\n$/, ''));
      }
      if (response.status >= 400) throw new CliError(`The destination answered ${response.status}.`);
    },
  });
};
