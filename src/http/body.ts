// Bodies: JSON parsed once, in one way, for every route, and in slices, so that a large one does not hold the event loop.
// Refuses what would not come back as it was sent, and never repeats a byte of it.
import type { App } from './app-type.ts';
import { AppError, fieldErrors, invalidField, invalidInput, unsupportedMediaType } from '../errors.ts';
import type { Json } from '../vault/json.ts';
import { JsonSyntaxError, type ParsedJson, parseInSlices } from '../vault/json-parser.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

const jsonType = /^application\/(?:[\w!#$&^.+-]+\+)?json[\t ]*(?:;|$)/i;

/** Only UTF-8 is JSON on the wire (RFC 8259 section 8.1). In quotation marks it is the same (RFC 9110 section 8.3.1). */
const otherCharset = /;[\t ]*charset[\t ]*=(?![\t ]*(?:utf-?8|"utf-?8")[\t ]*(?:;|$))/i;

/** What leaves the bytes as they are. */
const noCoding = /^[\t ]*(?:identity)?[\t ]*$/i;

/** No coding is undone here: a body that says it has one is not what it seems, or is not for us. @throws AppError, 415. */
export const refuseCoding = (coding: string | undefined): void => {
  if (coding !== undefined && !noCoding.test(coding))
    throw new AppError('unsupported_content_coding', 'The body must not have a Content-Encoding.');
};

/** The parser's message could quote the text around the error: it stops here. */
const notJson = () => invalidInput(fieldErrors([['', 'the body must be valid JSON in UTF-8']]));

const valueOf = ({ value, findings }: ParsedJson): Json => {
  const finding = findings.depth ?? findings.prototype ?? findings.duplicate ?? findings.number;
  if (finding) throw invalidField(finding.path, finding.sentence);
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

/** Parses a slice in each turn of the event loop. A body of one slice, as nearly all are, is there at once. */
const parseJsonBody = (bytes: Buffer, done: Done): void => {
  const parsing = parseInSlices(textOf(bytes));
  const parseSlice = (): void => {
    let value: Json;
    try {
      const slice = parsing.next();
      if (!slice.done) return void setImmediate(parseSlice);
      value = valueOf(slice.value);
    } catch (error) {
      return done(error instanceof JsonSyntaxError ? notJson() : (error as Error));
    }
    return done(null, value);
  };
  parseSlice();
};

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether the request brought a body: JSON null is one, nothing is none. */
    hasBody: boolean;
  }
}

export const addBodyParsers = (app: App): void => {
  app.decorateRequest('hasBody', false);
  app.removeAllContentTypeParsers();
  // The usual type by its name: for all others Fastify takes the header apart each time.
  app.addContentTypeParser(['application/json', '*'], { parseAs: 'buffer' }, (request, body, done) => {
    const { 'content-type': type = '', 'content-encoding': coding } = request.headers;
    try {
      // A body-less POST or DELETE is fine with any content type (decisions.md section 1).
      if (body.length === 0) return done(null, undefined);
      refuseCoding(coding);
      if (!jsonType.test(type)) throw unsupportedMediaType('The body must be application/json.');
      if (otherCharset.test(type)) throw unsupportedMediaType('The body must be in UTF-8.');
      request.hasBody = true;
      return parseJsonBody(body as Buffer, done);
    } catch (error) {
      return done(error as Error, undefined);
    }
  });
};
