// Answers for a sealed vault: /healthz with 200, /readyz with 503 and the status, every other request with a 503 problem.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { newUuid } from '../crypto/ids.ts';
import { type AppError, failure } from '../base/errors.ts';
import { problemOf } from './problems.ts';
import { headersOf, traceIdOf } from './trace.ts';

/** People unseal a vault: clients that ask each second would only add load. */
const RETRY_AFTER_SECONDS = 10;
/** A request has no body that is read here, and headers arrive at once. */
const REQUEST_MS_MAX = 10_000;

const sealed = (): AppError => failure('sealed', 'The vault is sealed. Its operators must unseal it.');

const respond = (request: IncomingMessage, response: ServerResponse): void => {
  const trace_id = traceIdOf(request, newUuid);
  const [path] = (request.url ?? '').split('?');
  const send = (status: number, type: string, content: object): void => {
    response.writeHead(status, {
      ...headersOf(trace_id),
      'content-type': type,
      // The next request goes to a process that serves, once there is one.
      connection: 'close',
      ...(status === 503 && { 'retry-after': String(RETRY_AFTER_SECONDS) }),
    });
    response.end(JSON.stringify(content));
  };
  // The body is not read: nothing that clients send enters a sealed vault.
  if (path === '/healthz') send(200, 'application/json', { status: 'ok' });
  else if (path === '/readyz') send(503, 'application/json', { status: 'sealed' });
  else send(503, 'application/problem+json', problemOf(sealed(), trace_id));
};

/** @returns the server, which listens. @throws what listening throws. */
export const listenSealed = async (host: string, port: number): Promise<Server> => {
  const server = createServer({ requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX }, respond);
  server.listen(port, host);
  await once(server, 'listening');
  return server;
};
