// Serves GET /metrics on a port of its own, apart from the API.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { StartError } from '../base/errors.ts';
import { isBearerOf } from '../metrics/bearer.ts';
import { METRICS_TYPE } from '../metrics/render.ts';

/** Scrapers are few. Each may keep a connection. */
const CONNECTIONS_MAX = 16;
/** A scraper sends its few headers at once. */
const HEADERS_MS = 5_000;

export type MetricsServer = { url: string; close(): Promise<void> };

type Place = { host: string; port: number; token: string | undefined };

const send = (response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void => {
  response.writeHead(status, {
    'content-type': status === 200 ? METRICS_TYPE : 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...headers,
  });
  response.end(text);
};

const answer = async (
  token: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  text: () => Promise<string>,
): Promise<void> => {
  if (token !== undefined && !isBearerOf(token, request.headers.authorization))
    return send(response, 401, 'Unauthorized\n', { 'www-authenticate': 'Bearer' });
  if (request.url?.split('?', 1)[0] !== '/metrics') return send(response, 404, 'Not found\n');
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return send(response, 405, 'Method not allowed\n', { allow: 'GET, HEAD' });
  return send(response, 200, await text());
};

const errorOf = (error: NodeJS.ErrnoException, { host, port }: Place): Error => {
  if (error.code === 'EADDRINUSE')
    return new StartError(
      `Port ${port} on ${host}, which METRICS_PORT names, is taken. Stop what uses it, or take another: METRICS_PORT=${port + 1}`,
    );
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND')
    return new StartError(`METRICS_HOST: ${host} is no address of this machine. Take another: METRICS_HOST=127.0.0.1`);
  if (error.code === 'EACCES')
    return new StartError(`METRICS_PORT: this process may not listen on port ${port}. Take another: METRICS_PORT=9464`);
  return error;
};

/**
 * @param place a token only where one is asked for. @param text of all metrics.
 * @throws StartError where it cannot listen there.
 */
export const openMetricsServer = async (place: Place, text: () => Promise<string>): Promise<MetricsServer> => {
  const { host, port, token } = place;
  const server = createServer({ headersTimeout: HEADERS_MS, requestTimeout: HEADERS_MS }, (request, response) => {
    // No part of an error is for a client.
    answer(token, request, response, text).catch(() => send(response, 503, 'Not available\n'));
  });
  server.maxConnections = CONNECTIONS_MAX;
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (error) {
    throw errorOf(error as NodeJS.ErrnoException, place);
  }
  const shownHost = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${shownHost}:${(server.address() as AddressInfo).port}/metrics`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
