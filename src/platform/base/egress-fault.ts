// The closed list of egress errors. Each code has a public sentence without data; the driver's error is the private cause.
import { CHUNKS_RULE } from './small-chunks.ts';

/** Our side cannot know what the destination did with a request that has left. */
export const MAY_HAVE_ACTED = 'It may have acted on the request.';

const sentenceOf = {
  /** The destination is not valid or not allowed. Nothing was sent. */
  DESTINATION_REFUSED: 'The destination is not valid or not allowed.',
  /** The method, a header or the framing cannot be sent. Nothing was sent. */
  REQUEST_REFUSED: 'The request cannot be sent as it is.',
  DNS: 'The name of the destination could not be resolved.',
  CONNECT: 'The destination could not be reached.',
  /** TLS version, certificate, name or handshake. The destination has not read the request, even if it refused our certificate. */
  TLS: 'No secure connection to the destination could be made.',
  TIMEOUT: 'The destination did not answer in time.',
  RESET: 'The destination closed the connection.',
  PROTOCOL: `The destination did not answer in valid HTTP. ${MAY_HAVE_ACTED}`,
  BODY_TOO_LARGE: `The answer of the destination is too large. ${MAY_HAVE_ACTED}`,
  TOO_MANY_CHUNKS: `The answer of the destination has ${CHUNKS_RULE}. ${MAY_HAVE_ACTED}`,
  /** The echo guard blocks the answer. */
  ECHO: "The destination's answer holds a value that was sent to it.",
  DECODE: `The answer of the destination could not be decoded. ${MAY_HAVE_ACTED}`,
  REDIRECT_REFUSED: 'The destination redirected the request, and redirects are not allowed.',
  TOO_MANY_REDIRECTS: 'The destination redirected the request too often.',
  /** Too many open connections (nothing was sent), or no memory for the body. */
  BUSY: 'Too many requests are under way.',
  ABORTED: 'The request was cancelled.',
} as const;

export type EgressFaultCode = keyof typeof sentenceOf;

export class EgressFault extends Error {
  override name = 'EgressFault';
  readonly code: EgressFaultCode;

  /** @param more.sentence a more precise public sentence, without data. */
  constructor(code: EgressFaultCode, more: { sentence?: string; cause?: unknown } = {}) {
    super(more.sentence ?? sentenceOf[code], { cause: more.cause });
    this.code = code;
  }
}

/** Codes whose sentence also ends a request that did not leave, or that have sentences of their own. */
const ends: ReadonlySet<EgressFaultCode> = new Set(['TIMEOUT', 'RESET', 'PROTOCOL']);

/** The same fault, and that the destination may have acted. For a request that began to leave. */
export const afterSending = (fault: EgressFault): EgressFault => {
  if (!ends.has(fault.code) || fault.message.endsWith(MAY_HAVE_ACTED)) return fault;
  return new EgressFault(fault.code, { sentence: `${fault.message} ${MAY_HAVE_ACTED}`, cause: fault.cause ?? fault });
};

const codeOf = {
  UND_ERR_HEADERS_OVERFLOW: 'PROTOCOL',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'PROTOCOL',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'REQUEST_REFUSED',
  UND_ERR_INVALID_ARG: 'REQUEST_REFUSED',
  UND_ERR_NOT_SUPPORTED: 'REQUEST_REFUSED',
  UND_ERR_ABORTED: 'ABORTED',
  UND_ERR_DESTROYED: 'ABORTED',
  UND_ERR_CLOSED: 'ABORTED',
} as const satisfies Record<string, EgressFaultCode>;

/** Maps any error of a request to a code. An unknown error counts as RESET. */
export const faultOf = (error: unknown): EgressFault => {
  if (error instanceof EgressFault) return error;
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown };
  if (name === 'HTTPParserError') return new EgressFault('PROTOCOL', { cause: error });
  if (typeof code !== 'string') return new EgressFault('RESET', { cause: error });
  // In TLS 1.3 the destination can refuse a client certificate, or ask for a missing one, after our side of the handshake.
  if (code.startsWith('ERR_SSL_')) return new EgressFault('TLS', { cause: error });
  return new EgressFault(Object.hasOwn(codeOf, code) ? codeOf[code as keyof typeof codeOf] : 'RESET', { cause: error });
};
