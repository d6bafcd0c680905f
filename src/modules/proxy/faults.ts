// Converts faults of egress to API errors: 400 for a refused destination, 502 and 504 for a destination that fails.
import { AppError, badRequest, invalidField, payloadTooLarge } from '../../platform/base/errors.ts';
import { EgressFault, MAY_HAVE_ACTED } from '../../platform/base/egress-fault.ts';
import { RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { megabytes } from '../../platform/base/size-text.ts';

/** Connections and memory become available within moments. */
const BUSY_RETRY_AFTER_SECONDS = 1;

/** @param place of the destination within the request; undefined for a stored proxy. */
export const destinationRefused = (fault: EgressFault, place: string | undefined): AppError =>
  place === undefined ? badRequest(fault.message) : invalidField(place, fault.message);

/** @returns an API error for a fault of egress; other errors as they are. */
/** The destination has answered, and its answer is of no use. @param sentence without a value. */
export const badAnswer = (sentence: string): AppError => new AppError('bad_gateway', `${sentence} ${MAY_HAVE_ACTED}`);

export const forwardingFault = (error: unknown, place?: string): unknown => {
  if (!(error instanceof EgressFault)) return error;
  // The caller's body was refused while it was being sent.
  if (error.cause instanceof AppError) return error.cause;
  switch (error.code) {
    case 'DESTINATION_REFUSED':
      return destinationRefused(error, place);
    case 'REQUEST_REFUSED':
      return badRequest(error.message);
    case 'BODY_TOO_LARGE':
      return payloadTooLarge(
        `The answer of the destination must be at most ${megabytes(RUN_BYTES_MAX)} to be transformed. ${MAY_HAVE_ACTED}`,
      );
    case 'TIMEOUT':
      return new AppError('gateway_timeout', error.message, { cause: error });
    case 'BUSY':
      return new AppError('unavailable', error.message, { cause: error, retryAfterSeconds: BUSY_RETRY_AFTER_SECONDS });
    case 'ABORTED':
      return new AppError('unavailable', error.message, { cause: error, retryAfterSeconds: BUSY_RETRY_AFTER_SECONDS });
    default:
      return new AppError('bad_gateway', error.message, { cause: error });
  }
};
