// What an executor's frames say, parsed by the server as the words of an enemy: whoever runs foreign code may have been taken
// over by it.
import { z } from 'zod';
import { shapeProblem } from '../json-shape.ts';
import { LOG_CHARACTERS_MAX, LOG_LINES_MAX, MESSAGE_CHARACTERS_MAX, ProtocolError } from './frames.ts';

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
  z.object({ code: z.enum(['TIMEOUT_WALL', 'TIMEOUT_CPU', 'OUT_OF_MEMORY', 'OUTPUT_TOO_LARGE']) }),
  /** Another run ended the isolate that this one was in. */
  z.object({ code: z.literal('ROOM_GONE') }),
]);

export type FaultHead = z.infer<typeof faultHead>;

/** The executor's frames, as the server parses them. A fault's head stands in the body, since it may hold a whole response. */
export const doneHead = z.object({
  ok: z.boolean(),
  cpu_ms: milliseconds,
  /** The code's thread goes on although it was told to end: only a kill helps. */
  is_stuck: z.boolean(),
  logs: z
    .array(z.object({ level: z.enum(['debug', 'log', 'info', 'warn', 'error']), text: clipped(LOG_CHARACTERS_MAX) }))
    .max(LOG_LINES_MAX),
});

export const callHead = z.object({ call: count, kind: z.string().max(40) });

/** So many values are parsed and walked in a few hundredths of a second, and the server's loop must not stand for longer. */
const VALUES_MAX = 100_000;

/** Whether a JSON text has at most so many values, as its brackets, braces and commas outside of strings tell. */
const hasFewValues = (text: string, valuesMax: number): boolean => {
  if (text.length < 2 * valuesMax) return true;
  let values = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === 0x22) index = endOfString(text, index);
    else if (code === 0x2c || code === 0x5b || code === 0x7b) {
      values += 1;
      if (values > valuesMax) return false;
    }
  }
  return true;
};

/** Where a string that begins at `from` ends; the end of the text where it does not. */
const endOfString = (text: string, from: number): number => {
  for (let end = text.indexOf('"', from + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes += 1;
    if (backslashes % 2 === 0) return end;
  }
  return text.length;
};

/**
 * Parses a text of the other side.
 * @returns its value; or the end of a sentence on why it is not taken ("must not ...").
 * @throws ProtocolError for a text that is no JSON.
 */
export const parseBody = (text: string, valuesMax = VALUES_MAX): { value: unknown } | { problem: string } => {
  if (!hasFewValues(text, valuesMax)) return { problem: `must not hold more than ${valuesMax} values` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ProtocolError('a text is no JSON');
  }
  const problem = shapeProblem(value);
  return problem === undefined ? { value } : { problem };
};

/** @throws ProtocolError for a head that has not the shape it must have. */
export const parseHead = <T>(schema: z.ZodType<T>, text: string): T => {
  const body = parseBody(text);
  const parsed = 'value' in body ? schema.safeParse(body.value) : undefined;
  if (!parsed?.success) throw new ProtocolError('a head has not its shape');
  return parsed.data;
};

/**
 * What code threw, as the executor tells it. Its words come from the tenant's code: what does not have the shape is an error
 * without words, and no breach.
 * @throws ProtocolError for a text that is no JSON.
 */
export const parseFault = (body: string): FaultHead => {
  const told = parseBody(body);
  if ('problem' in told) return { code: 'THROWN', message: `What was thrown ${told.problem}.` };
  const parsed = faultHead.safeParse(told.value);
  return parsed.success ? parsed.data : { code: 'THROWN', message: 'What was thrown could not be read.' };
};
