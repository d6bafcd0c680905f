// What tests of stored proxies and of hostile destinations share: proxies and applications made by the API, a server that
// may reach several ports of this machine, and answers as they are on the wire, whole or not.
import { request as requestHttp } from 'node:http';
import { expect } from 'vitest';
import type { Answer, RequestOptions, SharedServer } from './server.ts';

export type StoredProxy = { id: string; key: string };

/** Bodies of `/proxies`; the API key is who makes it, the server's own tenant by default. */
export type Wanted = { destination_url: string; [field: string]: unknown };

const made = async (server: SharedServer, path: string, json: object, key: string | undefined): Promise<any> => {
  const answer = await server.request('POST', path, { json, ...(key !== undefined && { key }) });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

export const makeProxy = (server: SharedServer, wanted: Wanted, key?: string): Promise<StoredProxy> =>
  made(server, '/proxies', { name: 'Proxy', ...wanted }, key);

/** @param wanted all of it: what is left out is no more. */
export const changeProxy = async (
  server: SharedServer,
  { id }: Pick<StoredProxy, 'id'>,
  wanted: Wanted,
  key?: string,
): Promise<void> => {
  const json = { name: 'Proxy', ...wanted };
  const answer = await server.request('PUT', `/proxies/${id}`, { json, ...(key !== undefined && { key }) });
  expect(answer.status, answer.text).toBe(200);
};

/** By the API, for what an operator's command does not say of them. @returns its id and its API key. */
export const makeApplication = (server: SharedServer, wanted: object): Promise<StoredProxy> =>
  made(server, '/applications', { name: 'Application', ...wanted }, undefined);

export const remove = async (server: SharedServer, path: string, key?: string): Promise<void> => {
  const answer = await server.request('DELETE', path, key === undefined ? {} : { key });
  expect(answer.status, answer.text).toBe(204);
};

/** A request through a stored proxy. `key` is the API key, null for none. */
export const askProxy = (
  server: SharedServer,
  proxy: Pick<StoredProxy, 'key'>,
  options: RequestOptions & { method?: string; path?: string } = {},
): Promise<Answer> => {
  const { method = 'POST', path = '/proxy', headers, ...rest } = options;
  return server.request(method, path, { ...rest, headers: { 'svc-proxy-key': proxy.key, ...headers } });
};

/** As it is on the wire: nothing of it is decoded. */
export type WireAnswer = {
  status: number;
  statusText: string;
  /** By lower-case name, repeated ones as a list. */
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
  /** Whether the body came to its end. */
  isWhole: boolean;
};

export type WireOptions = {
  /** The API key; null for none. */
  key?: string | null;
  headers?: Record<string, string | string[]>;
  body?: string | Uint8Array;
  /** When to leave; after 45 s at the latest, for a destination has 25. */
  signal?: AbortSignal;
};

/** Asks over a connection of its own, with the path as it is given. */
export const askOnWire = (
  server: SharedServer,
  method: string,
  path: string,
  { key = server.tenant.api_key, headers = {}, body, signal = AbortSignal.timeout(45_000) }: WireOptions = {},
): Promise<WireAnswer> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(server.base_url);
    const all = { ...(key !== null && { 'svc-api-key': key }), ...headers };
    const asked = requestHttp({ hostname, port, method, path, headers: all, agent: false, signal }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      // It says so by `complete`.
      response.on('error', () => {});
      response.on('close', () =>
        resolve({
          status: response.statusCode ?? 0,
          statusText: response.statusMessage ?? '',
          headers: response.headers,
          body: Buffer.concat(pieces),
          isWhole: response.complete,
        }),
      );
    });
    asked.on('error', reject);
    asked.end(body);
  });

/** The problem in the frame of the proxy, which is all that such a body holds. */
export const problemIn = ({ status, body }: Pick<WireAnswer, 'status' | 'body'>): any => {
  const result = JSON.parse(body.toString());
  expect(Object.keys(result)).toEqual(['proxy_error']);
  expect(result.proxy_error.status).toBe(status);
  return result.proxy_error;
};
