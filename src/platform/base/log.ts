// Writes the process log: JSON lines with allowlisted fields. Errors appear by name, code and stack frames, never by
// message, which can contain values.
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

/** The loggable parts of an error: class, code, and stack frames of our own code. */
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

/** Lines are buffered, so that a hundred requests need one system call. */
const LOG_BUFFER_BYTES = 32_768;
const LOG_FLUSH_MS = 200;
/** If the reader of standard output hangs, lines beyond this size are dropped, and requests are still served. */
const LOG_WAITING_BYTES_MAX = 16 * 1024 * 1024;

type StandardOutput = ReturnType<typeof pino.destination>;

const openStandardOutput = (): StandardOutput =>
  pino.destination({
    fd: 1,
    sync: false,
    minLength: LOG_BUFFER_BYTES,
    // The most bytes of one write; must exceed `minLength`.
    maxWrite: 2 * LOG_BUFFER_BYTES,
    maxLength: LOG_WAITING_BYTES_MAX,
    periodicFlush: LOG_FLUSH_MS,
  });

/** With one more line still less than `minLength`, at three bytes for each character, so that no asynchronous write starts. */
const LAST_PIECE_LENGTH = LOG_BUFFER_BYTES / 4;

/** The line that reports dropped lines, written once there is space again. @param dropped lines since the start. */
const droppedLine = (dropped: number): string =>
  `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), dropped, msg: 'lines of the log were dropped' })}\n`;

/** Joins the lines of one event-loop tick into one text, because pino's stream copies its whole buffer with each write. */
const createStandardOutput = (): DestinationStream => {
  let lines = '';
  let dropped = 0;
  let isReported = true;
  const pass = (): void => {
    const text = isReported ? lines : droppedLine(dropped) + lines;
    isReported = true;
    lines = '';
    output.write(text);
  };
  // Asynchronous writes do not finish on exit, so this flushes synchronously, before pino's own exit handler.
  process.on('exit', () => {
    const text = lines;
    // Flush earlier lines first: together with a further piece they could start an asynchronous write.
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
    isReported = false;
  });
  return {
    write: (line) => {
      if (lines === '') setImmediate(pass);
      lines += line;
    },
  };
};

let standardOutput: DestinationStream | undefined;

/** Stream of all logs of this process: each would have a buffer and a listener of its own otherwise. */
export const useStandardOutput = (): DestinationStream => (standardOutput ??= createStandardOutput());

/** What an alarm about a tenant says: names and ids of the vault's own. */
export type Alarm = { alarm: string; tenant_id: string; record: string | undefined; record_id: string | undefined };

const alarmOf = (fields: unknown): Alarm | undefined => {
  const { alarm, tenant_id, record, table, record_id, row_id } = (fields ?? {}) as Record<string, unknown>;
  if (typeof alarm !== 'string' || typeof tenant_id !== 'string') return undefined;
  const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
  return { alarm, tenant_id, record: textOf(record ?? table), record_id: textOf(record_id ?? row_id) };
};

/** @param destination where lines go; standard output when not given. @param fields of every line. @param onAlarm told of each alarm about a tenant. */
export const createLog = (
  level: string,
  destination?: DestinationStream,
  fields?: Record<string, unknown>,
  onAlarm?: (alarm: Alarm) => void,
): Log =>
  pino(
    {
      level,
      base: fields,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: {
        logMethod(args, method) {
          const alarm = onAlarm && alarmOf(args[0]);
          if (alarm) onAlarm(alarm);
          return method.apply(this, args);
        },
      },
      serializers: { err: describeError, error: describeError },
      // Defence in depth behind the allowlist: values of these names are never logged.
      redact: { paths: ['api_key', 'key', 'data', 'headers', 'body'], censor: '[sensitive]' },
    },
    destination ?? useStandardOutput(),
  );
