// Further prefixes of the API's headers, such as BT beside SVC: clients of other APIs of this form send them by their own names.
// Requests are renamed before anything reads them, so that every rule of SVC-* holds for all prefixes.
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { invalidField } from '../base/errors.ts';
import type { App } from './app-type.ts';

const OWN = 'svc-';

/** The prefix by which the client of a request names the API's headers, where it is not SVC. In lower case, with its dash. */
const prefixOf = new WeakMap<IncomingMessage, string>();

/** The headers that have two values under two prefixes. */
const conflictOf = new WeakMap<IncomingMessage, string>();

/** Whether the client of the request uses a further prefix: its SDK may expect another form of some answers. */
export const usesPrefix = ({ raw }: FastifyRequest): boolean => prefixOf.has(raw);

/** The prefix of the API's headers for a process that a request is passed on to. */
export const prefixFor = (raw: IncomingMessage): string => prefixOf.get(raw) ?? OWN;

/** The name with SVC in place of a further prefix. @param prefixes without dash, as in the configuration. */
export const ownNameOf = (name: string, prefixes: readonly string[]): string => {
  const dash = name.indexOf('-');
  return dash > 0 && prefixes.includes(name.slice(0, dash).toUpperCase()) ? `${OWN}${name.slice(dash + 1)}` : name;
};

/** A name of the API under each further prefix, in its case. Empty for other headers. */
export const prefixedNames = (name: string, prefixes: readonly string[]): string[] => {
  if (!name.toLowerCase().startsWith(OWN)) return [];
  const isLower = name.startsWith(OWN);
  return prefixes.map((prefix) => `${isLower ? prefix.toLowerCase() : prefix}${name.slice(OWN.length - 1)}`);
};

/** Renames the headers of a request, in the order in which they came. Two equal values under two prefixes are one. */
const rename = (raw: IncomingMessage, prefixes: readonly string[]): void => {
  const { rawHeaders, headers } = raw;
  const given = new Map<string, { name: string; value: string }>();
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [spelled, value] = [rawHeaders[at] as string, rawHeaders[at + 1] as string];
    const name = spelled.toLowerCase();
    const own = ownNameOf(name, prefixes);
    if (own !== name) {
      prefixOf.set(raw, name.slice(0, name.indexOf('-') + 1));
      headers[own] = headers[name];
    }
    const before = own.startsWith(OWN) ? given.get(own) : undefined;
    // One name twice stays twice: platform/http/connections.ts refuses it.
    if (before && before.name !== name) {
      if (before.value !== value) conflictOf.set(raw, own);
      continue;
    }
    if (own.startsWith(OWN)) given.set(own, { name, value });
    kept.push(own === name ? spelled : own, value);
  }
  for (const name of Object.keys(headers)) if (ownNameOf(name, prefixes) !== name) delete headers[name];
  if (prefixOf.has(raw)) raw.rawHeaders = kept;
};

/** Adds to a response the headers SVC-* under the prefix of its request. */
const addPrefixed = (response: ServerResponse, prefix: string, head: unknown[]): void => {
  const nameFor = (name: string): string => prefix + name.slice(OWN.length);
  const isOwn = (name: unknown): name is string => typeof name === 'string' && name.toLowerCase().startsWith(OWN);
  for (const [name, value] of Object.entries(response.getHeaders()))
    if (isOwn(name) && value !== undefined) response.setHeader(nameFor(name), value);
  const given = head.at(-1) as OutgoingHttpHeaders | unknown[] | undefined;
  if (typeof given !== 'object' || given === null) return;
  if (Array.isArray(given)) {
    // Names and values in turn. Those of the heavy worker are there under the prefix already.
    const names = new Set(given.map((each) => (typeof each === 'string' ? each.toLowerCase() : each)));
    for (let at = 0, { length } = given; at < length; at += 2) {
      const name: unknown = given[at];
      if (isOwn(name) && !names.has(nameFor(name).toLowerCase())) given.push(nameFor(name), given[at + 1]);
    }
    return;
  }
  for (const [name, value] of Object.entries(given)) if (isOwn(name)) given[nameFor(name)] = value;
};

/** A response for `http.createServer` that answers a client by the prefix that it uses. Every response passes `writeHead`. */
export const prefixedResponse = (
  prefixes: readonly string[],
  Response: typeof ServerResponse,
): typeof ServerResponse => {
  if (prefixes.length === 0) return Response;
  return class extends Response {
    override writeHead(...head: unknown[]): this {
      const prefix = prefixOf.get(this.req);
      if (prefix !== undefined && !this.headersSent) addPrefixed(this, prefix, head);
      return Reflect.apply(super.writeHead, this, head);
    }
  } as typeof ServerResponse;
};

/** Call before hooks that read headers. Without further prefixes, requests pass as they are. */
export const renamePrefixes = (app: App, prefixes: readonly string[]): void => {
  if (prefixes.length === 0) return;
  // Before the framework, which reads the trace id.
  app.server.prependListener('request', (raw: IncomingMessage) => rename(raw, prefixes));
  app.addHook('onRequest', (request, reply, done) => {
    const name = conflictOf.get(request.raw);
    if (name === undefined) return done();
    reply.header('connection', 'close');
    const names = ['SVC', ...prefixes].map((prefix) => `${prefix}-${name.slice(OWN.length).toUpperCase()}`);
    return done(invalidField(`headers.${name}`, `must have one value, under ${names.join(' or ')}`));
  });
};
