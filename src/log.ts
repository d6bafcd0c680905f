// The log: JSON lines of what an allow-list lets through. Errors are told by name, code and place, never by their words,
// which can hold values (security.md rule 13).
import { pino, type DestinationStream, type Logger } from 'pino';

export type Log = Logger;

export type ErrorDescription = {
  name: string;
  code?: string | undefined;
  at: string[];
  cause?: ErrorDescription | undefined;
};

const CAUSES_MAX = 4;
const FRAMES_MAX = 8;

/** What may be logged of an error: its class, its code, our own frames. */
export const describeError = (error: unknown, causesMax = CAUSES_MAX): ErrorDescription => {
  if (!(error instanceof Error)) return { name: typeof error, at: [] };
  const code = (error as { code?: unknown }).code;
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return {
    name: error.name,
    code: typeof code === 'string' ? code.slice(0, 64) : undefined,
    at: frames.slice(0, FRAMES_MAX).map((line) => line.trim().slice(3)),
    cause: error.cause !== undefined && causesMax > 0 ? describeError(error.cause, causesMax - 1) : undefined,
  };
};

/** Lines are written together: one system call for some dozens of requests, none older than this. */
const LOG_BUFFER_BYTES = 8192;
const LOG_FLUSH_MS = 200;

/** @param destination where lines go; standard output when not given. */
export const createLog = (level: string, destination?: DestinationStream): Log =>
  pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError, error: describeError },
      // Second to the allow-list: should one of these names ever be logged, its value is not.
      redact: { paths: ['api_key', 'key', 'data', 'headers', 'body'], censor: '[sensitive]' },
    },
    destination ?? pino.destination({ fd: 1, sync: false, minLength: LOG_BUFFER_BYTES, periodicFlush: LOG_FLUSH_MS }),
  );
