// Bodies: JSON parsed once, in one way, for every route. Refuses what would not come back as it was sent, and never
// repeats a byte of it.
import type { App } from './app-type.ts';
import { fieldErrors, invalidField, invalidInput, unsupportedMediaType } from '../errors.ts';
import { formatPath, JSON_DEPTH_MAX, type Json } from '../vault/json.ts';
import { findChangedNumber } from '../vault/json-numbers.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

const jsonType = /^application\/(?:[\w!#$&^.+-]+\+)?json[\t ]*(?:;|$)/i;

/** Only UTF-8 is JSON on the wire (RFC 8259 section 8.1). */
const otherCharset = /;[\t ]*charset[\t ]*=[\t ]*"?(?!utf-?8"?[\t ]*(?:;|$))/i;

type Step = { value: object; depth: number; path: Path | undefined };
/** A path as a linked list: made for every container, spelled out only for a problem. */
type Path = { step: string | number; before: Path | undefined };

const spell = (path: Path | undefined): string => {
  const steps: (string | number)[] = [];
  for (let at = path; at; at = at.before) steps.unshift(at.step);
  return formatPath(steps);
};

/**
 * Refuses nesting beyond JSON_DEPTH_MAX and keys that reach for a prototype. Iterative: a body nested 100,000 deep costs
 * its bytes and no stack. `constructor` is a name like any other unless its value carries a `prototype`.
 */
const refuseHostileShape = (root: Json): void => {
  if (typeof root !== 'object' || root === null) return;
  const steps: Step[] = [{ value: root, depth: 1, path: undefined }];
  for (let at = steps.pop(); at; at = steps.pop()) {
    if (at.depth > JSON_DEPTH_MAX)
      throw invalidField('', `the body must not be nested deeper than ${JSON_DEPTH_MAX} levels`);
    const depth = at.depth + 1;
    if (Array.isArray(at.value)) {
      // Most items are no containers: nothing is made for those.
      for (let step = 0; step < at.value.length; step += 1) {
        const value: Json = at.value[step];
        if (typeof value === 'object' && value !== null) steps.push({ value, depth, path: { step, before: at.path } });
      }
      continue;
    }
    for (const step of Object.keys(at.value)) {
      if (step === '__proto__') throw invalidField(spell(at.path), 'must not have the key __proto__');
      const value = (at.value as Record<string, Json>)[step];
      if (typeof value !== 'object' || value === null) continue;
      if (step === 'constructor' && Object.hasOwn(value, 'prototype'))
        throw invalidField(spell(at.path), 'must not have the key constructor.prototype');
      steps.push({ value, depth, path: { step, before: at.path } });
    }
  }
};

/** @throws invalidInput without a word of the body. */
export const parseJsonBody = (bytes: Buffer): Json => {
  let text: string;
  let value: Json;
  try {
    text = utf8.decode(bytes);
    value = JSON.parse(text) as Json;
  } catch {
    // The parser's message quotes the text around the error: it stops here.
    throw invalidInput(fieldErrors([['', 'the body must be valid JSON in UTF-8']]));
  }
  refuseHostileShape(value);
  const changed = findChangedNumber(text);
  if (changed !== undefined) throw invalidField(changed, 'must be a number that a double holds exactly, or a string');
  return value;
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
    const type = request.headers['content-type'] ?? '';
    try {
      // A body-less POST or DELETE is fine with any content type (decisions.md section 1).
      if (body.length === 0) return done(null, undefined);
      if (!jsonType.test(type)) throw unsupportedMediaType('The body must be application/json.');
      if (otherCharset.test(type)) throw unsupportedMediaType('The body must be in UTF-8.');
      request.hasBody = true;
      return done(null, parseJsonBody(body as Buffer));
    } catch (error) {
      return done(error as Error, undefined);
    }
  });
};
