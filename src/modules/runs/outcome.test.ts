// The outcome of a run from what happened, and its names of errors.
import { expect, test } from 'vitest';
import type { RunOutcome } from '../../platform/db/run-rows.ts';
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { AppError, badRequest, codeFailure, forbidden, invalidField, unavailable } from '../../platform/base/errors.ts';
import { CallFault, type RunFault } from '../../platform/sandbox/protocol/sandbox.ts';
import { forwardingFault } from '../proxy/faults.ts';
import {
  endingOfError,
  endingOfFault,
  type Ending,
  isFailure,
  nameOfError,
  nameOfFault,
  outcomeOf,
} from './outcome.ts';

test.each<[Ending, RunOutcome]>([
  [{ what: 'returned' }, 'success'],
  [{ what: 'destination', status: 200 }, 'success'],
  [{ what: 'destination', status: 499 }, 'success'],
  [{ what: 'destination', status: 500 }, 'failed'],
  [{ what: 'documented', status: 303 }, 'success'],
  [{ what: 'documented', status: 402 }, 'refused'],
  [{ what: 'documented', status: 499 }, 'refused'],
  [{ what: 'documented', status: 503 }, 'crashed'],
  [{ what: 'refused' }, 'refused'],
  [{ what: 'threw' }, 'crashed'],
  [{ what: 'time' }, 'timed_out'],
  [{ what: 'memory' }, 'out_of_memory'],
  [{ what: 'left' }, 'cancelled'],
  [{ what: 'unreachable' }, 'failed'],
  [{ what: 'died' }, 'unknown'],
])('%j is %s', (ending, outcome) => {
  expect(outcomeOf(ending)).toBe(outcome);
  expect(isFailure(outcome)).toBe(!['success', 'refused'].includes(outcome));
});

const thrown = (message: string, name = 'TypeError'): RunFault => ({ code: 'THROWN', message, name, line: 2 });
const sdk = (name: string): RunFault => ({
  code: 'SDK_ERROR',
  error: { class: name, status: 400, detail: 'Bad Request', errors: {} },
});

test.each<[RunFault, status: number, RunOutcome, name: string]>([
  [thrown('4242424242424242'), 500, 'crashed', 'TypeError'],
  [thrown('x', '4242424242424242'), 500, 'crashed', 'Error'],
  [thrown('fetch failed (The destination could not be reached)'), 500, 'failed', 'TypeError'],
  [sdk('BadRequestError'), 400, 'refused', 'BadRequestError'],
  [sdk('4242424242424242'), 500, 'crashed', 'Error'],
  [{ code: 'RESPONSE', response: { status: 402, headers: {} } }, 402, 'refused', 'CustomHttpResponseError'],
  [{ code: 'RESPONSE', response: { status: 99, headers: {} } }, 500, 'crashed', 'CustomHttpResponseError'],
  [{ code: 'SYNTAX', message: 'SyntaxError: x' }, 500, 'crashed', 'SyntaxError'],
  [{ code: 'NO_FUNCTION' }, 500, 'crashed', 'NO_FUNCTION'],
  [{ code: 'OUTPUT_TOO_LARGE' }, 500, 'crashed', 'OUTPUT_TOO_LARGE'],
  [{ code: 'EXECUTOR_DIED' }, 500, 'crashed', 'EXECUTOR_DIED'],
  [{ code: 'TIMEOUT_CPU' }, 408, 'timed_out', 'TIMEOUT_CPU'],
  [{ code: 'TIMEOUT_WALL' }, 408, 'timed_out', 'TIMEOUT_WALL'],
  [{ code: 'OUT_OF_MEMORY' }, 500, 'out_of_memory', 'OUT_OF_MEMORY'],
  [{ code: 'CANCELLED' }, 408, 'cancelled', 'CANCELLED'],
  [{ code: 'BUSY', over: 'tenant', retryAfterSeconds: 1 }, 429, 'refused', 'BUSY'],
  [{ code: 'NO_WALL' }, 503, 'refused', 'NO_WALL'],
])('the fault of code %j with the status %i is %s', (fault, status, outcome, name) => {
  expect(outcomeOf(endingOfFault(fault, status, ['The destination could not be reached']))).toBe(outcome);
  expect(nameOfFault(fault)).toBe(name);
});

test.each<[unknown, RunOutcome, name: string]>([
  [forbidden('token:use'), 'refused', 'permission_missing'],
  [badRequest('x'), 'refused', 'bad_request'],
  [invalidField('args', 'must be there'), 'refused', 'invalid_input'],
  [codeFailure(422, 'Reactor Runtime Error', []), 'crashed', 'code_failed'],
  [unavailable(), 'failed', 'unavailable'],
  [new AppError('bad_gateway', 'x'), 'failed', 'bad_gateway'],
  [new EgressFault('DESTINATION_REFUSED'), 'refused', 'DESTINATION_REFUSED'],
  [new EgressFault('REQUEST_REFUSED'), 'refused', 'REQUEST_REFUSED'],
  [new EgressFault('BODY_TOO_LARGE'), 'refused', 'BODY_TOO_LARGE'],
  [new EgressFault('REQUEST_REFUSED', { cause: badRequest('x') }), 'refused', 'bad_request'],
  [new EgressFault('DNS'), 'failed', 'DNS'],
  [new EgressFault('TLS'), 'failed', 'TLS'],
  [new EgressFault('CONNECT'), 'failed', 'CONNECT'],
  [new EgressFault('TIMEOUT'), 'failed', 'TIMEOUT'],
  [forwardingFault(new EgressFault('TIMEOUT')), 'failed', 'TIMEOUT'],
  [new EgressFault('ABORTED'), 'cancelled', 'ABORTED'],
  [new CallFault('DECODE', 'x'), 'failed', 'DECODE'],
  [new CallFault('4242424242424242', 'x'), 'refused', 'Error'],
  [new Error('4242424242424242'), 'failed', 'Error'],
])('the error %s is %s', (error, outcome, name) => {
  expect(outcomeOf(endingOfError(error))).toBe(outcome);
  expect(nameOfError(error)).toBe(name);
});
