// What goes wrong between the proxy and its destination, as the answer to the caller: 400 for what may not be asked for,
// 502 and 504 for a destination that cannot be reached or does not answer as it should.
import { AppError, badRequest, invalidField, payloadTooLarge } from '../errors.ts';
import { EgressFault } from '../egress/fault.ts';

/** Connections and room come free within moments. */
const BUSY_RETRY_AFTER_SECONDS = 1;

/** @param place of what named the destination, where the caller did; else undefined. */
export const destinationRefused = (fault: EgressFault, place: string | undefined): AppError =>
  place === undefined ? badRequest(fault.message) : invalidField(place, fault.message);

/** @returns what is no fault of the way there or back as it is. */
export const forwardingFault = (error: unknown, place?: string): unknown => {
  if (!(error instanceof EgressFault)) return error;
  // What the caller's body was refused for while it was on its way.
  if (error.cause instanceof AppError) return error.cause;
  switch (error.code) {
    case 'DESTINATION_REFUSED':
      return destinationRefused(error, place);
    case 'REQUEST_REFUSED':
      return badRequest(error.message);
    case 'BODY_TOO_LARGE':
      return payloadTooLarge('The answer of the destination must be at most 5 MB to be transformed.');
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
