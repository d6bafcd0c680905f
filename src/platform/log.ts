// Writes the process log: JSON lines with fields of an allow-list. Errors appear by name, code and place, never by their
// message, which can hold values.
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

/** Lines are written together: one system call for a hundred requests, none older than this. */
const LOG_BUFFER_BYTES = 32_768;
const LOG_FLUSH_MS = 200;
/** Where nobody takes the lines, such as a pipe whose reader hangs, further ones are dropped: requests are served without. */
const LOG_WAITING_BYTES_MAX = 16 * 1024 * 1024;

type StandardOutput = ReturnType<typeof pino.destination>;

const openStandardOutput = (): StandardOutput =>
  pino.destination({
    fd: 1,
    sync: false,
    minLength: LOG_BUFFER_BYTES,
    // How much of what waits is written at once; it must be more than the least.
    maxWrite: 2 * LOG_BUFFER_BYTES,
    maxLength: LOG_WAITING_BYTES_MAX,
    periodicFlush: LOG_FLUSH_MS,
  });

/** With one more line it is less than begins a write by itself: a character takes three bytes at most. */
const LAST_PIECE_LENGTH = LOG_BUFFER_BYTES / 4;

/** Says that the log has holes, once there is room for a line. @param dropped how many since the start. */
const droppedLine = (dropped: number): string =>
  `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), dropped, msg: 'lines of the log were dropped' })}\n`;

/** Lines of one round of the event loop as one text: pino's way out copies all that waits with every text it is given. */
export const createStandardOutput = (): DestinationStream => {
  let lines = '';
  let dropped = 0;
  let isTold = true;
  const pass = (): void => {
    const text = isTold ? lines : droppedLine(dropped) + lines;
    isTold = true;
    lines = '';
    output.write(text);
  };
  // At the exit nothing ends that does not end at once. Told of it before pino's own way out is.
  process.on('exit', () => {
    const text = lines;
    // What it has from earlier rounds, and a piece of these: together they would be enough to begin a write that nobody awaits.
    if (text !== '') output.flushSync();
    for (let at = 0, end = 0; at < text.length; at = end) {
      end = text.indexOf('\n', at + LAST_PIECE_LENGTH) + 1 || text.length;
      output.write(text.slice(at, end));
      output.flushSync();
    }
  });
  const output = openStandardOutput();
  output.on('drop', (text: string) => {
    dropped += text.split('\n').length - 1;
    isTold = false;
  });
  return {
    write: (line) => {
      if (lines === '') setImmediate(pass);
      lines += line;
    },
  };
};

/** @param destination where lines go; standard output when not given. @param fields of every line. */
export const createLog = (level: string, destination?: DestinationStream, fields?: Record<string, unknown>): Log =>
  pino(
    {
      level,
      base: fields,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError, error: describeError },
      // Second to the allow-list: should one of these names ever be logged, its value is not.
      redact: { paths: ['api_key', 'key', 'data', 'headers', 'body'], censor: '[sensitive]' },
    },
    destination ?? createStandardOutput(),
  );
