// Refuses requests whose framing or headers have two meanings. A proxy in front of the server may have taken the other one
// (request smuggling). The connection closes, since its next bytes may belong to the request.
import type { IncomingMessage } from 'node:http';
import { AppError, fieldErrors, invalidInput } from '../errors.ts';
import type { App } from './app-type.ts';

/** Headers that have one value. Of two, Node keeps the first, or joins them. */
const SINGLE: ReadonlySet<string> = new Set([
  'authorization',
  'content-length',
  'content-type',
  'svc-api-key',
  'svc-fields-session',
  'svc-idempotency-key',
  'svc-proxy-key',
  'svc-proxy-url',
  'svc-trace-id',
  'transfer-encoding',
]);

const refused = (sentence: string): AppError => invalidInput(fieldErrors([['', sentence]]));

/** The name of a header that must be there once, and is there twice. */
const findDouble = ({ rawHeaders }: IncomingMessage): string | undefined => {
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
};

/** RFC 9112 section 6.1: the server decodes chunks alone, and HTTP/1.0 has no Transfer-Encoding. */
const framingProblem = ({ headers, httpVersion }: IncomingMessage): AppError | undefined => {
  const { 'transfer-encoding': coding } = headers;
  if (coding === undefined) return undefined;
  if (httpVersion === '1.0') return refused('a request of HTTP/1.0 must have no Transfer-Encoding');
  if (headers['content-length'] !== undefined)
    return refused('the request must have one of Content-Length and Transfer-Encoding');
  if (coding.trim().toLowerCase() === 'chunked') return undefined;
  return new AppError('not_implemented', 'The Transfer-Encoding must be chunked, without another coding.');
};

export const refuseTwoMeanings = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const double = findDouble(request.raw);
    const problem =
      double === undefined ? framingProblem(request.raw) : refused(`the request must have one ${double} header`);
    if (problem === undefined) return done();
    reply.header('connection', 'close');
    return done(problem);
  });
};
