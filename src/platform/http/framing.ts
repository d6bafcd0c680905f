// Refuses requests whose framing or headers have two meanings. A proxy in front of the server may have taken the other one
// (request smuggling). The connection closes, since its next bytes may belong to the request.
import type { IncomingMessage } from 'node:http';
import { AppError, badRequest, invalidField } from '../base/errors.ts';
import type { App } from './app-type.ts';

/** Headers that have one value for this server. Of two, Node keeps the first, or joins them. */
const SINGLE: ReadonlySet<string> = new Set([
  'content-length',
  'svc-api-key',
  'svc-fields-session',
  'svc-idempotency-key',
  'svc-proxy-key',
  'svc-proxy-url',
  'svc-trace-id',
  'transfer-encoding',
]);

/** Where a request is forwarded, these are for the destination, which gets them as they came. */
const SINGLE_UNLESS_FORWARDED: ReadonlySet<string> = new Set(['authorization', 'content-type']);

const refused = (name: string, sentence: string): AppError => invalidField(`headers.${name}`, sentence);

/** The name of a header that must be there once, and is there twice. */
const findDouble = ({ rawHeaders }: IncomingMessage, isForwarded: boolean): string | undefined => {
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase();
    if (!SINGLE.has(name) && (isForwarded || !SINGLE_UNLESS_FORWARDED.has(name))) continue;
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
};

/** Node's parser takes a request line of HTTP/2.0, too, which another server in between may not read as HTTP/1.1. */
const VERSIONS: ReadonlySet<string> = new Set(['1.0', '1.1']);

/** RFC 9112 section 6.1: the server decodes chunks alone, and HTTP/1.0 has no Transfer-Encoding. */
const framingProblem = ({ headers, httpVersion }: IncomingMessage): AppError | undefined => {
  if (!VERSIONS.has(httpVersion)) return badRequest('The version in the request line must be HTTP/1.1 or HTTP/1.0.');
  const { 'transfer-encoding': coding } = headers;
  if (coding === undefined) return undefined;
  if (httpVersion === '1.0') return refused('transfer-encoding', 'must not be in a request of HTTP/1.0');
  if (headers['content-length'] !== undefined)
    return refused('transfer-encoding', 'must not be there beside Content-Length');
  if (coding.trim().toLowerCase() === 'chunked') return undefined;
  return new AppError('not_implemented', 'The Transfer-Encoding must be chunked, without another coding.');
};

export const refuseTwoMeanings = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const double = findDouble(request.raw, request.routeOptions.config.forwards === true);
    const problem = double === undefined ? framingProblem(request.raw) : refused(double, 'must be there once');
    if (problem === undefined) return done();
    reply.header('connection', 'close');
    return done(problem);
  });
};
