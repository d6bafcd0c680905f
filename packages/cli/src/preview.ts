// Shows a request as the proxy would send it, with masks in place of values. Nothing is sent but reads of the tokens.
import { createHmac } from 'node:crypto';
import type { Proxy, Strongroom, Token } from '@strongroom/node';
import {
  collectTokenIds,
  createExpansion,
  createReferences,
  expandJson,
  type ExpansionRecord,
  maskExpressions,
} from '../../../src/modules/tokens/expressions/expansion.ts';
import { ExpressionError } from '../../../src/modules/tokens/expressions/expression-error.ts';
import type { Json } from '../../../src/platform/json/json.ts';
import type { SentRequest } from './commands/proxies.ts';
import { CliError, EXIT } from './exit-codes.ts';

const environment = {
  hmac: (algorithm: string, key: string, text: string, encoding: 'hex' | 'base64' | 'base64url' = 'hex') =>
    createHmac(algorithm, key).update(text).digest(encoding),
};

/** What is searched for expressions. A JSON body by its strings, another one as text. */
type Places = { url: string; headers: [string, string][]; body: Json };

const readBody = (body: string | undefined): Json => {
  try {
    return body === undefined ? null : (JSON.parse(body) as Json);
  } catch {
    return body as string;
  }
};

/** The token as an expression sees it. A value is never in it: only what equals the mask, or the mask. */
const maskedRecord = (token: Token): ExpansionRecord => {
  const { data: _, mask, ...rest } = token;
  return (mask === undefined ? rest : { ...rest, data: mask }) as ExpansionRecord;
};

const readTokens = async (vault: Strongroom, ids: Iterable<string>): Promise<Map<string, Token>> => {
  const tokens = new Map<string, Token>();
  for (const id of ids) {
    tokens.set(id, await vault.tokens.get(id));
  }
  return tokens;
};

const asError = (error: unknown): unknown =>
  error instanceof ExpressionError
    ? new CliError(`The proxy would refuse this request: it ${error.message}.`, EXIT.failed)
    : error;

const baseOf = (request: SentRequest, proxy: Proxy | undefined): string => {
  const url = proxy === undefined ? request.url : proxy.destination_url.replace(/\/$/, '') + request.url;
  if (!URL.canParse(url) || (proxy !== undefined && !request.url.startsWith('/')))
    throw new CliError('The URL must be an https URL, or a path with --proxy.', EXIT.usage);
  return url;
};

export const previewRequest = async (
  vault: Strongroom,
  request: SentRequest,
  proxy: Proxy | undefined,
): Promise<{ lines: string[]; record: object }> => {
  const places: Places = { url: baseOf(request, proxy), headers: request.headers, body: readBody(request.body) };
  const json = places as unknown as Json;
  try {
    const references = proxy?.expressions === 'off' ? createReferences() : collectTokenIds(json);
    const tokens = await readTokens(vault, references.ids);
    const find = (id: string): ExpansionRecord | undefined => {
      const token = tokens.get(id);
      return token && maskedRecord(token);
    };
    const shown = (proxy?.expressions === 'off'
      ? json
      : expandJson(json, maskExpressions(createExpansion(find, environment, references)))) as unknown as Places;
    const found = [...tokens].map(([id, { type, containers }]) => ({ id, type, containers }));
    const hasCode = proxy?.request_transform !== undefined;
    const body = typeof shown.body === 'string' ? shown.body : JSON.stringify(shown.body, null, 2);
    return {
      record: { method: request.method, ...shown, tokens: found, request_transform: hasCode },
      lines: [
        `${request.method} ${shown.url}`,
        ...shown.headers.map(([name, value]) => `${name}: ${value}`),
        ...(request.body === undefined ? [] : ['', body]),
        '',
        `Nothing was sent. ${found.length === 0 ? 'No expression was found.' : `${found.length} ${found.length === 1 ? 'token' : 'tokens'}, shown by masks.`}`,
        ...(hasCode ? ['The request transform changes this request before it leaves. A preview runs no code.'] : []),
      ],
    };
  } catch (error) {
    throw asError(error);
  }
};
