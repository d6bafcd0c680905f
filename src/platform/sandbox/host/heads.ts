// Validates executor messages as untrusted input: an executor may have been taken over by the code that it runs.
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { JsonSyntaxError, parseInSlices } from '../../json/json-parser.ts';
import { runAtOnce, type Slices } from '../../json/slices.ts';
import { shapeProblem } from '../../json/json-shape.ts';
import { LOG_CHARACTERS_MAX, LOG_LINES_MAX, MESSAGE_CHARACTERS_MAX, ProtocolError } from '../protocol/frames.ts';
import type { LogLine } from '../protocol/sandbox.ts';

/** 13 to 19 digits, as people write card numbers: together, or with single spaces or dashes between them. */
const cardLike = /(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)/g;

/** All digits of what looks like a card number but the last four become X. */
export const maskCardLike = (text: string): string =>
  text.replace(cardLike, (digits) => digits.replace(/\d(?=(?:[ -]?\d){4})/g, 'X'));

export const maskLines = (lines: readonly LogLine[]): LogLine[] =>
  lines.map(({ level, text }) => ({ level, text: maskCardLike(text) }));

const count = z
  .int()
  .min(0)
  .max(2 ** 31);
const milliseconds = z.number().min(0).max(1e9);
const clipped = (charactersMax: number) => z.string().transform((text) => text.slice(0, charactersMax));

const place = { line: count.optional(), column: count.optional() };

const thrownErrors = z
  .record(z.string().max(200), z.array(clipped(MESSAGE_CHARACTERS_MAX)).max(200))
  .refine((errors) => Object.keys(errors).length <= 200);

const faultHead = z.discriminatedUnion('code', [
  z.object({
    code: z.literal('THROWN'),
    message: clipped(MESSAGE_CHARACTERS_MAX),
    name: clipped(200).optional(),
    ...place,
  }),
  z.object({
    code: z.literal('SDK_ERROR'),
    error: z.object({ class: z.string().max(60), status: count, detail: clipped(200), errors: thrownErrors }),
    ...place,
  }),
  z.object({
    code: z.literal('RESPONSE'),
    response: z.object({ status: z.int(), headers: z.record(z.string(), z.string()), body: z.unknown() }),
  }),
  z.object({ code: z.literal('SYNTAX'), message: clipped(MESSAGE_CHARACTERS_MAX), ...place }),
  z.object({ code: z.literal('NO_FUNCTION') }),
  z.object({ code: z.enum(['TIMEOUT_WALL', 'TIMEOUT_CPU', 'OUT_OF_MEMORY', 'OUTPUT_TOO_LARGE', 'CANCELLED']) }),
  /** Another run ended the isolate that this one was in. */
  z.object({ code: z.literal('ISOLATE_GONE') }),
]);

export type FaultHead = z.infer<typeof faultHead>;

/** The executor's frames, as the server parses them. A fault's head stands in the body, since it may hold a whole response. */
export const doneHead = z.object({
  ok: z.boolean(),
  cpu_ms: milliseconds,
  /** The thread of the code does not terminate: the executor must be killed. */
  is_stuck: z.boolean(),
  logs: z
    .array(z.object({ level: z.enum(['debug', 'log', 'info', 'warn', 'error']), text: clipped(LOG_CHARACTERS_MAX) }))
    .max(LOG_LINES_MAX),
});

export const callHead = z.object({ call: count, kind: z.string().max(40) });

/** Values of one text. Parsing and walking so many takes some 20 ms of the event loop. */
const VALUES_MAX = 100_000;

/** Texts up to this size are parsed at once, in about a millisecond. Larger ones are parsed in slices. */
export const PARSED_AT_ONCE = 131_072;

/** Counts the values of a small JSON text by its brackets, braces and commas outside strings. */
const countValues = (text: string): number => {
  let values = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === 0x22) index = endOfString(text, index);
    else if (code === 0x2c || code === 0x5b || code === 0x7b) values += 1;
  }
  return values;
};

/** The end of a string that begins at `from`, or the end of the text. */
const endOfString = (text: string, from: number): number => {
  for (let end = text.indexOf('"', from + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes += 1;
    if (backslashes % 2 === 0) return end;
  }
  return text.length;
};

/** The value of a text, or the end of a sentence on why it is refused ("must not ..."). */
export type ParsedBody = { value: unknown } | { problem: string };

const tooMany = (valuesMax: number): ParsedBody => ({ problem: `must not hold more than ${valuesMax} values` });

const parseAtOnce = (text: string, valuesMax: number): ParsedBody => {
  // A text that is short enough cannot have too many.
  if (text.length >= 2 * valuesMax && countValues(text) > valuesMax) return tooMany(valuesMax);
  const value: unknown = JSON.parse(text);
  const problem = shapeProblem(value);
  return problem === undefined ? { value } : { problem };
};

function* parseTextInSlices(text: string, valuesMax: number): Slices<ParsedBody> {
  const { value, findings } = yield* parseInSlices(text, { valuesMax });
  if (findings.values) return tooMany(valuesMax);
  // Code may nest deeper than clients. The exact check runs only if the lower limit is exceeded.
  const problem = findings.prototype?.sentence ?? (findings.depth && shapeProblem(value));
  return problem === undefined ? { value } : { problem };
}

/** Parses bytes of the executor, once. Before, they are no text. @throws ProtocolError where they are not JSON in UTF-8. */
export function* parseBodyInSlices(bytes: Buffer, valuesMax = VALUES_MAX): Slices<ParsedBody> {
  try {
    if (bytes.length <= PARSED_AT_ONCE) return parseAtOnce(bytes.toString(), valuesMax);
    // Large bodies of several runs are parsed in turn.
    yield;
    // Bytes that are no UTF-8 take seven times as long: 30 ms for the largest body.
    if (!isUtf8(bytes)) throw new ProtocolError('a text is not UTF-8');
    yield;
    const text = bytes.toString();
    yield;
    return yield* parseTextInSlices(text, valuesMax);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof JsonSyntaxError) throw new ProtocolError('a text is not JSON');
    throw error;
  }
}

/** Validates a head. @throws ProtocolError if it does not match the schema. */
export const parseHead = <T>(schema: z.ZodType<T>, text: string): T => {
  const body = runAtOnce(parseBodyInSlices(Buffer.from(text)));
  const parsed = 'value' in body ? schema.safeParse(body.value) : undefined;
  if (!parsed?.success) throw new ProtocolError('a head is not valid');
  return parsed.data;
};

/**
 * What code threw, from a parsed text. The message comes from the tenant's code, so a wrong shape is an error without a message
 * and no breach of the protocol.
 */
export const faultOfBody = (thrown: ParsedBody): FaultHead => {
  if ('problem' in thrown) return { code: 'THROWN', message: `What was thrown ${thrown.problem}.` };
  const parsed = faultHead.safeParse(thrown.value);
  return parsed.success ? parsed.data : { code: 'THROWN', message: 'What was thrown could not be read.' };
};
