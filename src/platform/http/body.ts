// Parses JSON bodies, in slices, so that a large one does not block the event loop. Refuses values that the vault could not
// return as they were sent. No error quotes the body.
import type { FastifyRequest } from 'fastify';
import { type Accounts, FREE_BYTES } from '../base/accounts.ts';
import type { Platform } from '../services/platform.ts';
import type { App } from './app-type.ts';
import { accountOf, releaseAfter } from './connections.ts';
import { AppError, invalidField, unsupportedMediaType } from '../base/errors.ts';
import type { Json } from '../json/json.ts';
import { describePlace, JsonSyntaxError, type ParsedJson, parseInSlices, type TextPlace } from '../json/json-parser.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

const jsonType = /^application\/(?:[\w!#$&^.+-]+\+)?json[\t ]*(?:;|$)/i;

/** JSON must be UTF-8 (RFC 8259 section 8.1). The charset may be quoted (RFC 9110 section 8.3.1). */
const otherCharset = /;[\t ]*charset[\t ]*=(?![\t ]*(?:utf-?8|"utf-?8")[\t ]*(?:;|$))/i;

/** Codings that do not change the bytes. */
const noCoding = /^[\t ]*(?:identity)?[\t ]*$/i;

/** Compressed bodies are not decoded here. @throws AppError, 415. */
export const refuseCoding = (coding: string | undefined): void => {
  if (coding !== undefined && !noCoding.test(coding))
    throw new AppError('unsupported_content_coding', 'The body must not have a Content-Encoding.');
};

/** Says where the body breaks the syntax, and not by which characters. */
const notJson = (place?: TextPlace) => {
  const where = place === undefined ? '' : describePlace(place);
  return invalidField('', `the body must be valid JSON in UTF-8${where}`, 'not_json');
};

const valueOf = ({ value, findings }: ParsedJson): Json => {
  const finding = findings.depth ?? findings.prototype ?? findings.duplicate ?? findings.number;
  if (finding) throw invalidField(finding.path, finding.sentence, finding.code);
  return value;
};

const textOf = (bytes: Buffer): string => {
  try {
    return utf8.decode(bytes);
  } catch {
    throw notJson();
  }
};

type Done = (error: Error | null, body?: Json) => void;

/** Nearly all bodies have one slice, and are parsed at once. */
const parseJsonBody = (accounts: Accounts, request: FastifyRequest, bytes: Buffer, done: Done): void => {
  const failed = (error: unknown): void =>
    done(error instanceof JsonSyntaxError ? notJson(error.place) : (error as Error));
  const parsing = parseInSlices(textOf(bytes));
  try {
    const slice = parsing.next();
    if (slice.done) return done(null, valueOf(slice.value));
    const parsed = accounts.runInTurns(accountOf(request), parsing);
    return void Promise.resolve(parsed)
      .then(valueOf)
      .then((value) => done(null, value), failed);
  } catch (error) {
    return failed(error);
  }
};

/** Reserves memory for large bodies before they arrive. One without a length may have the largest. */
const countBodies = (app: App, { accounts, config }: Pick<Platform, 'accounts' | 'config'>): void => {
  app.addHook('preParsing', (request, reply, _payload, done) => {
    const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
    const bytes = coding === undefined ? Number(length ?? 0) : config.bodyBytesMax;
    // The proxy reserves what it keeps of a body. A body that is too large is refused without being read.
    if (bytes <= FREE_BYTES || bytes > config.bodyBytesMax || request.routeOptions.config.forwards) return done();
    try {
      releaseAfter(reply.raw, accounts.reserve(accountOf(request), 'body_bytes', bytes));
      return done();
    } catch (error) {
      return done(error as Error);
    }
  });
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether the request has a body. JSON null is one. */
    hasBody: boolean;
  }
}

/** The type that was sent, without parameters, for an error. */
const butIs = (type: string): string => {
  const [sent] = /^[\w.+-]{1,60}\/[\w.+-]{1,60}(?=\s*(?:;|$))/.exec(type) ?? [];
  return sent === undefined ? '' : `, not ${sent}`;
};

export const addBodyParsers = (app: App, ctx: Pick<Platform, 'accounts' | 'config'>): void => {
  countBodies(app, ctx);
  app.decorateRequest('hasBody', false);
  app.removeAllContentTypeParsers();
  // The usual type by its name, as Fastify parses the header for all others.
  app.addContentTypeParser(['application/json', '*'], { parseAs: 'buffer' }, (request, body, done) => {
    const { 'content-type': type = '', 'content-encoding': coding } = request.headers;
    try {
      // Without a body, any content type is accepted.
      if (body.length === 0) return done(null, undefined);
      refuseCoding(coding);
      if (!jsonType.test(type)) throw unsupportedMediaType(`The body must be application/json${butIs(type)}.`);
      if (otherCharset.test(type)) throw unsupportedMediaType('The body must be in UTF-8.');
      request.hasBody = true;
      return parseJsonBody(ctx.accounts, request, body as Buffer, done);
    } catch (error) {
      return done(error as Error, undefined);
    }
  });
};
