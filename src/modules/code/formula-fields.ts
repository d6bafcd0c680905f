// Schema of the fields of a formula: name, icon, code, and its contracts for configuration and args.
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { nameSchema } from '../access/names.ts';
import { isStorableText, NOT_STORABLE } from '../../platform/json/json.ts';
import { optional } from '../../platform/base/optional.ts';

// Checks that an icon is a data URL of a whole PNG or JPEG image, by the structure of its bytes.

/** Characters of the whole URL. */
const ICON_LENGTH_MAX = 50_000;

const ICON_PATTERN = /^data:image\/(png|jpe?g);base64,([A-Za-z0-9+/]+={0,2})$/;

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Length, name and checksum of a chunk. */
const PNG_CHUNK_FRAME_BYTES = 12;
const PNG_HEADER_BYTES = 13;

/** A header first, pixels after it, nothing after the end, and a valid checksum for each chunk. */
const isPng = (bytes: Buffer): boolean => {
  if (!bytes.subarray(0, PNG_SIGNATURE.length).equals(PNG_SIGNATURE)) return false;
  let hasPixels = false;
  for (let at = PNG_SIGNATURE.length; at + PNG_CHUNK_FRAME_BYTES <= bytes.length;) {
    const length = bytes.readUInt32BE(at);
    const end = at + PNG_CHUNK_FRAME_BYTES + length;
    if (end > bytes.length) return false;
    const name = bytes.toString('latin1', at + 4, at + 8);
    if (crc32(bytes.subarray(at + 4, end - 4)) !== bytes.readUInt32BE(end - 4)) return false;
    const isFirst = at === PNG_SIGNATURE.length;
    if (isFirst !== (name === 'IHDR') || (isFirst && length !== PNG_HEADER_BYTES)) return false;
    if (name === 'IDAT') hasPixels = true;
    if (name === 'IEND') return hasPixels && length === 0 && end === bytes.length;
    at = end;
  }
  return false;
};

const JPEG_START = 0xd8;
const JPEG_END = 0xd9;
const JPEG_SCAN = 0xda;
/** Markers without a length and content. */
const isBareMarker = (marker: number): boolean => marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7);

/** Finds the next marker after the pixels of a scan. Within them 0xFF is followed by 0 or by a restart marker. */
const endOfScan = (bytes: Buffer, from: number): number => {
  let at = bytes.indexOf(0xff, from);
  while (at !== -1 && (bytes[at + 1] === 0 || isBareMarker(bytes[at + 1] ?? 0))) at = bytes.indexOf(0xff, at + 2);
  return at;
};

/** Segments with their lengths, at least one scan of pixels, and nothing after the end. */
const isJpeg = (bytes: Buffer): boolean => {
  if (bytes[0] !== 0xff || bytes[1] !== JPEG_START) return false;
  let hasPixels = false;
  for (let at = 2; at + 1 < bytes.length;) {
    if (bytes[at] !== 0xff) return false;
    const marker = bytes[at + 1] as number;
    // 0xFF may be repeated before a marker.
    if (marker === 0xff) at += 1;
    else if (marker === JPEG_END) return hasPixels && at + 2 === bytes.length;
    else if (isBareMarker(marker)) at += 2;
    else {
      if (marker === 0 || marker === JPEG_START || at + 4 > bytes.length) return false;
      const length = bytes.readUInt16BE(at + 2);
      const end = at + 2 + length;
      if (length < 2 || end > bytes.length) return false;
      at = marker === JPEG_SCAN ? endOfScan(bytes, end) : end;
      if (marker === JPEG_SCAN) hasPixels = true;
      if (at === -1) return false;
    }
  }
  return false;
};

/** Whether a text is a data URL of a whole image of the type that it names. */
const isIcon = (text: string): boolean => {
  if (text.length > ICON_LENGTH_MAX) return false;
  const [, type, base64 = ''] = ICON_PATTERN.exec(text) ?? [];
  if (type === undefined) return false;
  const bytes = Buffer.from(base64, 'base64');
  // Buffer skips invalid characters: the text is the same after a round trip only if it has none.
  if (bytes.toString('base64') !== base64) return false;
  return type === 'png' ? isPng(bytes) : isJpeg(bytes);
};

export const CODE_LENGTH_MAX = 50_000;
export const DESCRIPTION_LENGTH_MAX = 1_000;
export const ELEMENTS_MAX = 25;
const ELEMENT_NAME_LENGTH_MAX = 200;

export const declaredTypes = ['string', 'boolean', 'number'] as const;
export type DeclaredType = (typeof declaredTypes)[number];

export type ConfigurationElement = { name: string; description?: string | undefined; type: DeclaredType };
export type RequestParameter = ConfigurationElement & { optional?: boolean | undefined };

/** One pixel. */
export const ICON_IN_DOCUMENTS =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mPQyp8OAAH3ATEjw1BhAAAAAElFTkSuQmCC';

/** Names through which a look-up could reach a prototype (CWE-1321). */
const hostileNames = new Set(['__proto__', 'constructor', 'prototype']);
const HOSTILE_NAMES = 'Not `__proto__`, `constructor` or `prototype`.';

const description = optional(
  z
    .string(`must be text of at most ${DESCRIPTION_LENGTH_MAX} characters`)
    .max(DESCRIPTION_LENGTH_MAX, `must have at most ${DESCRIPTION_LENGTH_MAX} characters`)
    .refine(isStorableText, NOT_STORABLE),
);

const elementName = (pattern: RegExp, form: string) =>
  z
    .string(`must be text of 1 to ${ELEMENT_NAME_LENGTH_MAX} characters`)
    .max(ELEMENT_NAME_LENGTH_MAX, `must have 1 to ${ELEMENT_NAME_LENGTH_MAX} characters`)
    .regex(pattern, form)
    .refine(
      (name) => !name.split('.').some((segment) => hostileNames.has(segment)),
      'must not be __proto__, constructor or prototype',
    );

const configurationNamePattern = /^[\w-]+$/;

export const configurationName = elementName(
  configurationNamePattern,
  'must be letters, digits, _ and -, without dots',
);

/** Keywords of the OpenAPI document for a configuration: a map of values by these names. */
export const configurationKeywords = {
  maxProperties: ELEMENTS_MAX,
  propertyNames: { type: 'string', maxLength: ELEMENT_NAME_LENGTH_MAX, pattern: configurationNamePattern.source },
};

// Without look-ahead, which the regular expressions of Go and Rust do not have.
const parameterName = elementName(
  /^\w((\.?[\w-])*\.?\w)?$/,
  'must be letters, digits, _, - and single dots between names, with a letter, a digit or _ at both ends',
);

const declaredType = z.enum(declaredTypes, 'must be string, boolean or number');

const listError = 'must be a list';
const listLength = `must have at most ${ELEMENTS_MAX} entries`;

type Named = { name: string };

/** Reports each name that occurs twice, at its second place. */
const refuseDuplicates = (elements: readonly Named[], ctx: z.RefinementCtx): void => {
  const known = new Set<string>();
  for (const [index, { name }] of elements.entries()) {
    if (known.has(name)) ctx.addIssue({ code: 'custom', path: [index, 'name'], message: 'must not be there twice' });
    known.add(name);
  }
};

/** A value has a declared type or declared values below it, never both. */
const refuseLeavesWithChildren = (elements: readonly Named[], ctx: z.RefinementCtx): void => {
  for (const [index, { name }] of elements.entries())
    if (elements.some((other) => other.name.startsWith(`${name}.`)))
      ctx.addIssue({ code: 'custom', path: [index, 'name'], message: 'must not be the parent of another parameter' });
};

/** With the text of the OpenAPI document. */
export const formulaFields = {
  name: nameSchema.meta({ description: 'The name of the formula.', example: 'Charge a card' }),
  description: description.meta({
    description: 'What the formula does.',
    example: 'Charges a card with a payment API',
  }),
  icon: optional(
    z
      .string('must be a data URL of a PNG or JPEG image')
      .refine(isIcon, `must be a data URL in base64 of a PNG or JPEG image, of at most ${ICON_LENGTH_MAX} characters`)
      .meta({ maxLength: ICON_LENGTH_MAX, pattern: ICON_PATTERN.source }),
  ).meta({
    description: 'An image as a data URL in base64, of the type that it names: image/png, image/jpg or image/jpeg.',
    example: ICON_IN_DOCUMENTS,
  }),
  code: z
    .string(`must be text of 1 to ${CODE_LENGTH_MAX} characters`)
    .min(1, `must have 1 to ${CODE_LENGTH_MAX} characters`)
    .max(CODE_LENGTH_MAX, `must have 1 to ${CODE_LENGTH_MAX} characters`)
    .refine(isStorableText, NOT_STORABLE)
    .meta({
      description: 'JavaScript at the level of Node.js 16: a CommonJS module that exports one function of a request.',
      example: 'module.exports = async (req) => ({ raw: { last4: req.args.number.slice(-4) } });',
    }),
  configuration: optional(
    z
      .array(
        z
          .object(
            {
              name: configurationName.meta({
                description: `The name of the value, unique in the list. ${HOSTILE_NAMES}`,
                example: 'API_KEY',
              }),
              description: description.meta({
                description: 'The purpose of the value.',
                example: 'The key of the API',
              }),
              type: declaredType.meta({ description: 'The type that the value must have.', example: 'string' }),
            },
            'must be an object',
          )
          .meta({
            id: 'ConfigurationDeclaration',
            description: 'A value that each reactor of the formula must have in its configuration.',
          }),
        listError,
      )
      .max(ELEMENTS_MAX, listLength)
      .superRefine(refuseDuplicates),
  )
    .transform((elements) => elements ?? [])
    .meta({ description: "The contract for the configuration of the formula's reactors." }),
  request_parameters: optional(
    z
      .array(
        z
          .object(
            {
              name: parameterName.meta({
                description: `The name of the value, unique in the list. Dots lead into objects, as in \`card.number\`; then \`card\` cannot be in the same list. ${HOSTILE_NAMES}`,
                example: 'card.number',
              }),
              description: description.meta({
                description: 'The purpose of the value.',
                example: 'The card to charge',
              }),
              type: declaredType.meta({
                description: 'The type that the server casts the value to.',
                example: 'string',
              }),
              optional: optional(z.boolean('must be true or false'))
                .transform((optional) => optional ?? false)
                .meta({ description: 'Whether an invocation may leave it out. Left out: false.', example: false }),
            },
            'must be an object',
          )
          .meta({ id: 'ParameterDeclaration', description: 'A value that an invocation passes in `args`.' }),
        listError,
      )
      .max(ELEMENTS_MAX, listLength)
      .superRefine(refuseDuplicates)
      .superRefine(refuseLeavesWithChildren),
  )
    .transform((elements) => elements ?? [])
    .meta({
      description: 'The contract for `args` of an invocation. Without parameters the code gets any `args` as they are.',
    }),
};
