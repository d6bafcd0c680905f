// The error that a request to the vault fails with: a problem of the server, or no answer at all.

/** What is wrong, by the path of each property: sentences in `errors`, and a code for each of them in `codes`. */
export type Faults = Record<string, string[]>;

export type ErrorDetails = {
  /** Such as `POST /tokens`. It has no ids. */
  operation: string;
  code: string;
  detail?: string | undefined;
  status?: number | undefined;
  errors?: Faults | undefined;
  codes?: Faults | undefined;
  traceId?: string | undefined;
  /** Name and line of the error of the tenant's code, as far as the server says them. */
  codeError?: string | undefined;
  codeLine?: number | undefined;
  retryAfterMs?: number | undefined;
  attempts?: number | undefined;
  cause?: unknown;
};

/** A message shows as many faults. `errors` has all of them. */
const FAULTS_SHOWN = 3;

/** Sentences of the server that have a subject of their own stand apart from the path. */
const join = (path: string, text: string): string => `${path}${/^[A-Z]/.test(text) ? ':' : ''} ${text}`;
/** The message of an error of the tenant's code is a sentence of its author. */
const joinMessage = (path: string, text: string): string => `${path}: ${text}`;

const describe = ({ code, detail, errors = {} }: ErrorDetails): string => {
  const joined = code === 'code_failed' ? joinMessage : join;
  const faults = Object.entries(errors).flatMap(([path, texts]) => texts.map((text) => joined(path, text)));
  const more = faults.length > FAULTS_SHOWN ? ` (and ${faults.length - FAULTS_SHOWN} more)` : '';
  return [detail, ...faults.slice(0, FAULTS_SHOWN)].filter((text) => text !== undefined).join('; ') + more;
};

/**
 * Thrown for every failure but an abort by the caller. Neither its message nor its properties hold a value that was sent.
 * Without `status` the server did not answer: `code` is then `connection_failed`, `certificate_refused`, `timeout` or
 * `invalid_input`, where nothing was sent.
 */
export class StrongroomError extends Error {
  override readonly name = 'StrongroomError';
  declare readonly operation: string;
  /** For programs: https://github.com/strongroom/strongroom/blob/main/docs/api.md#codes-of-errors has those of the server. */
  declare readonly code: string;
  declare readonly status: number | undefined;
  declare readonly errors: Faults;
  declare readonly codes: Faults;
  /** Finds the request in the log of the vault. */
  declare readonly traceId: string | undefined;
  /** Name of the error of the code of the tenant, and its line. */
  declare readonly codeError: string | undefined;
  declare readonly codeLine: number | undefined;
  /** How long the server asks to wait. */
  declare readonly retryAfterMs: number | undefined;
  /** How often the request was sent. */
  declare readonly attempts: number;

  constructor(details: ErrorDetails) {
    const { operation, code, status, errors = {}, codes = {}, traceId, retryAfterMs, attempts = 0, cause } = details;
    const text = describe(details);
    const { codeError, codeLine } = details;
    const line = codeLine === undefined ? '' : ` in line ${codeLine}`;
    const places = [
      ...(codeError === undefined ? [] : [`${codeError}${line}`]),
      ...(traceId === undefined ? [] : [`trace ${traceId}`]),
    ];
    const place = places.length === 0 ? '' : ` (${places.join(', ')})`;
    super(
      `${operation}: ${status === undefined ? '' : `${status} `}${code}${text === '' ? '' : `: ${text}`}${place}`,
      cause === undefined ? undefined : { cause },
    );
    Object.assign(this, {
      operation,
      code,
      status,
      errors,
      codes,
      traceId,
      codeError,
      codeLine,
      retryAfterMs,
      attempts,
    });
  }
}

/** Input that cannot be sent. The path is written as the server writes it: `card.data.number`, `[0].type`, `body`. */
export const invalidInput = (operation: string, path: string, text: string, code = 'invalid'): StrongroomError =>
  new StrongroomError({ operation, code: 'invalid_input', errors: { [path]: [text] }, codes: { [path]: [code] } });
