// Decides the outcome of a run from what happened, and names what went wrong from closed lists: code must not write values into it.
import type { RunOutcome } from '../../platform/db/run-rows.ts';
import { EgressFault, type EgressFaultCode } from '../../platform/base/egress-fault.ts';
import { AppError } from '../../platform/base/errors.ts';
import { CallFault, type RunFault } from '../../platform/sandbox/protocol/sandbox.ts';

/** What ended a run. */
export type Ending =
  /** Code returned a result that can be read. */
  | { what: 'returned' }
  /** A documented error class of the SDK, with the status of the response; also a response that code threw. */
  | { what: 'documented'; status: number }
  /** Any other error of code, or a result that cannot be read. */
  | { what: 'threw' }
  /** Rules, bounds, allowed hosts or an expression. */
  | { what: 'refused' }
  /** Wall time or CPU time. */
  | { what: 'time' }
  | { what: 'memory' }
  /** The caller left. */
  | { what: 'left' }
  | { what: 'destination'; status: number }
  /** DNS, TLS, the connection or its time limit. Also a part of the vault that did not answer. */
  | { what: 'unreachable' }
  /** The process died. */
  | { what: 'died' };

const SERVER_ERROR = 500;

export const outcomeOf = (ending: Ending): RunOutcome => {
  switch (ending.what) {
    case 'returned':
      return 'success';
    case 'documented':
      // A response such as a redirect is what the code wanted.
      if (ending.status < 400) return 'success';
      return ending.status < SERVER_ERROR ? 'refused' : 'crashed';
    case 'threw':
      return 'crashed';
    case 'refused':
      return 'refused';
    case 'time':
      return 'timed_out';
    case 'memory':
      return 'out_of_memory';
    case 'left':
      return 'cancelled';
    case 'destination':
      return ending.status < SERVER_ERROR ? 'success' : 'failed';
    case 'unreachable':
      return 'failed';
    case 'died':
      return 'unknown';
  }
};

/** Whether the log gets a second row with the outcome `failed`: values have left, and the caller did not get what it wanted. */
export const isFailure = (outcome: RunOutcome): boolean => outcome !== 'success' && outcome !== 'refused';

/** Faults of egress that are not of the destination. */
const faultsOfRequest: ReadonlySet<string> = new Set<EgressFaultCode>([
  'DESTINATION_REFUSED',
  'REQUEST_REFUSED',
  'REDIRECT_REFUSED',
  'TOO_MANY_REDIRECTS',
  'BODY_TOO_LARGE',
  'BUSY',
]);

const faultsOfDestination: ReadonlySet<string> = new Set<string>([
  ...([
    'DNS',
    'CONNECT',
    'TLS',
    'TIMEOUT',
    'RESET',
    'PROTOCOL',
    'TOO_MANY_CHUNKS',
    'DECODE',
  ] satisfies EgressFaultCode[]),
  // Faults of `svc.proxy`.
  'BAD_GATEWAY',
  'GATEWAY_TIMEOUT',
]);

/** Whether a call of code failed by its destination. */
export const isOfDestination = ({ code }: CallFault): boolean => faultsOfDestination.has(code);

/**
 * What a fault of code is.
 * @param status of the response that was made of it: an error class of the SDK with a wrong status is a 500.
 * @param failedCalls messages of calls that failed by their destination. Code that catches none of them ends with one.
 */
export const endingOfFault = (fault: RunFault, status: number, failedCalls: Iterable<string> = []): Ending => {
  switch (fault.code) {
    case 'SDK_ERROR':
    case 'RESPONSE':
      return { what: 'documented', status };
    case 'THROWN':
      return [...failedCalls].some((message) => fault.message.includes(message))
        ? { what: 'unreachable' }
        : { what: 'threw' };
    case 'SYNTAX':
    case 'NO_FUNCTION':
    case 'OUTPUT_TOO_LARGE':
    case 'EXECUTOR_DIED':
      return { what: 'threw' };
    case 'TIMEOUT_WALL':
    case 'TIMEOUT_CPU':
      return { what: 'time' };
    case 'OUT_OF_MEMORY':
      return { what: 'memory' };
    case 'CANCELLED':
      return { what: 'left' };
    case 'BUSY':
    case 'NO_WALL':
      return { what: 'refused' };
  }
};

/** What an error is that ended a request before or after code ran. */
export const endingOfError = (error: unknown): Ending => {
  if (error instanceof EgressFault) {
    // The caller's body was refused while it was being sent.
    if (error.cause instanceof AppError) return endingOfError(error.cause);
    if (error.code === 'ABORTED') return { what: 'left' };
    return { what: faultsOfRequest.has(error.code) ? 'refused' : 'unreachable' };
  }
  if (error instanceof AppError) {
    if (error.cause instanceof EgressFault) return endingOfError(error.cause);
    if (error.code === 'code_failed') return { what: 'threw' };
    return { what: error.status < SERVER_ERROR ? 'refused' : 'unreachable' };
  }
  if (error instanceof CallFault) return { what: isOfDestination(error) ? 'unreachable' : 'refused' };
  return { what: 'unreachable' };
};

/** Those of JavaScript and of the SDK. */
const namesOfErrors: ReadonlySet<string> = new Set([
  'Error',
  'AggregateError',
  'EvalError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'TypeError',
  'URIError',
  'AuthenticationError',
  'AuthorizationError',
  'BadRequestError',
  'CustomHttpResponseError',
  'InvalidPaymentMethodError',
  'InvalidReactorConfigurationError',
  'InvalidReactorFormulaError',
  'RateLimitError',
  'ReactorRuntimeError',
  'ServiceUnavailableError',
]);

const known = (name: string | undefined): string => (name !== undefined && namesOfErrors.has(name) ? name : 'Error');

export const nameOfFault = (fault: RunFault): string => {
  switch (fault.code) {
    case 'THROWN':
      return known(fault.name);
    case 'SDK_ERROR':
      return known(fault.error.class);
    case 'RESPONSE':
      return 'CustomHttpResponseError';
    case 'SYNTAX':
      return 'SyntaxError';
    default:
      return fault.code;
  }
};

/** The code of an error of the vault: of egress, or as in a problem document. */
export const nameOfError = (error: unknown): string => {
  if (error instanceof EgressFault) return error.cause instanceof AppError ? nameOfError(error.cause) : error.code;
  if (error instanceof AppError)
    return error.cause instanceof EgressFault ? nameOfError(error.cause) : error.problemCode;
  return error instanceof CallFault && (faultsOfDestination.has(error.code) || faultsOfRequest.has(error.code))
    ? error.code
    : 'Error';
};
