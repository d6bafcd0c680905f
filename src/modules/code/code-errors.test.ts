// The response for each way in which a run can fail.
import { describe, expect, test } from 'vitest';
import { AppError } from '../../platform/base/errors.ts';
import type { RunFault, RunLimits, ThrownResponse, ThrownSdkError } from '../../platform/sandbox/protocol/sandbox.ts';
import { answerOfFault, busy, CodeResponse, noWall, runtimeError } from './code-errors.ts';

const limits: RunLimits = { wallMs: 30_000, cpuMs: 5_000, memoryMb: 128, outputBytesMax: 5 * 1024 * 1024 };

const failureOf = (fault: RunFault, given = limits): AppError => {
  const answer = answerOfFault(fault, given);
  expect(answer).toBeInstanceOf(AppError);
  return answer as AppError;
};

const responseOf = (response: ThrownResponse, given = limits): CodeResponse => {
  const answer = answerOfFault({ code: 'RESPONSE', response }, given);
  expect(answer).toBeInstanceOf(CodeResponse);
  return answer as CodeResponse;
};

const wordsOf = ({ errors }: AppError) => ({ ...errors });

const sdkError = (error: Partial<ThrownSdkError>): RunFault => ({
  code: 'SDK_ERROR',
  error: { class: 'BadRequestError', status: 400, detail: 'whatever', errors: { error: ['words'] }, ...error },
});

const runtimeWords = (message: string) => ({
  code: 'code_failed',
  status: 500,
  message: 'Reactor Runtime Error',
  words: { error: [message] },
});

const seen = (error: AppError) => ({
  code: error.code,
  status: error.status,
  message: error.message,
  words: wordsOf(error),
});

describe('an error of the SDK has the status and the title of its class', () => {
  test.each([
    ['BadRequestError', 400, 'Bad Request'],
    ['InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration'],
    ['AuthenticationError', 401, 'Authentication Failed'],
    ['InvalidPaymentMethodError', 402, 'Invalid Payment Method'],
    ['AuthorizationError', 403, 'Forbidden'],
    ['InvalidReactorFormulaError', 422, 'Invalid Reactor Formula'],
    ['RateLimitError', 429, 'Rate Limit Exceeded'],
    ['ReactorRuntimeError', 500, 'Reactor Runtime Error'],
    ['ServiceUnavailableError', 503, 'Service Unavailable'],
  ])('%s is %i %s', (name, status, title) => {
    const failure = failureOf(sdkError({ class: name, status, detail: 'a title of its own' }));
    expect(seen(failure)).toEqual({ code: 'code_failed', status, message: title, words: { error: ['words'] } });
    expect(failure.retryAfterSeconds).toBe(status === 429 || status === 503 ? 1 : undefined);
  });

  test.each([
    ['BadRequestError', 401],
    ['BadRequestError', 200],
    ['AuthenticationError', 500],
    ['ReactorError', 500],
    ['Error', 400],
    ['constructor', 400],
    ['__proto__', 400],
    ['', 400],
  ])('%s with status %i was not made by the SDK, and nothing of it is shown', (name, status) => {
    const failure = failureOf(sdkError({ class: name, status }));
    expect(seen(failure)).toEqual(runtimeWords('The code threw an error of the SDK with a wrong class or status.'));
  });

  test('keeps its error texts under their names', () => {
    const errors = { amount: ['must be above 0', 'must be whole'], currency: ['is not known'] };
    expect(wordsOf(failureOf(sdkError({ errors })))).toEqual(errors);
  });

  test('has no error texts if the code gave none', () => {
    expect(wordsOf(failureOf(sdkError({ errors: {} })))).toEqual({});
  });

  test('does not reach a prototype by the names of error texts', () => {
    const errors = JSON.parse('{"__proto__":["polluted"],"constructor":["words"]}') as Record<string, string[]>;
    const failure = failureOf(sdkError({ errors }));
    expect(Object.getPrototypeOf(failure.errors)).toBeNull();
    expect(Object.keys(failure.errors ?? {})).toEqual(['__proto__', 'constructor']);
    expect(({} as Record<string, unknown>)['0']).toBeUndefined();
  });

  test.each([
    ['no list', { a: 'text' }],
    ['a list of other things', { a: [1, null, { b: 'c' }, ['d']] }],
    ['null', { a: null }],
  ])('%s under a name is dropped', (_, errors) => {
    expect(wordsOf(failureOf(sdkError({ errors: errors as unknown as Record<string, string[]> })))).toEqual({});
  });
});

describe('the texts of an error have 4 KB in total', () => {
  const bytesOf = (error: AppError): number =>
    Object.entries(error.errors ?? {}).reduce(
      (sum, [name, texts]) => sum + Buffer.byteLength(name) + Buffer.byteLength(texts.join('')),
      0,
    );

  test.each([
    ['one long message', { code: 'THROWN', message: 'x'.repeat(10_000) } as const],
    ['one long text', sdkError({ errors: { a: ['x'.repeat(10_000)] } })],
    ['many texts', sdkError({ errors: { a: Array.from({ length: 10_000 }, () => 'word') } })],
    ['many empty texts', sdkError({ errors: { a: Array.from({ length: 100_000 }, () => '') } })],
    ['many names', sdkError({ errors: Object.fromEntries([...Array(1_000).keys()].map((at) => [`n${at}`, ['x']])) })],
    ['one long name', sdkError({ errors: { ['n'.repeat(10_000)]: ['x'] } })],
    ['characters of several bytes', { code: 'THROWN', message: '€'.repeat(10_000) } as const],
  ])('%s', (_, fault) => {
    const failure = failureOf(fault);
    expect(bytesOf(failure)).toBeLessThanOrEqual(4096);
    expect(Object.keys(failure.errors ?? {}).length).toBeLessThanOrEqual(50);
    expect(Object.values(failure.errors ?? {}).flat().length).toBeLessThanOrEqual(4096);
  });

  test('what is cut is cut between characters', () => {
    const [text = ''] = failureOf({ code: 'THROWN', message: '😀'.repeat(2_000) }).errors?.['error'] ?? [];
    expect(text.isWellFormed()).toBe(true);
    expect(Buffer.byteLength(text)).toBeGreaterThan(4000);
    expect(text).toBe('😀'.repeat(text.length / 2));
  });

  test('texts within the limit stay as they are', () => {
    const message = 'ü'.repeat(2_000);
    expect(wordsOf(failureOf({ code: 'THROWN', message }))).toEqual({ error: [message] });
  });
});

describe('a run that was ended, or ended by itself, says why', () => {
  test.each<[RunFault, number, string]>([
    [{ code: 'THROWN', message: 'out of stock' }, 500, 'out of stock'],
    [{ code: 'THROWN', message: 'x', name: 'TypeError', line: 3, column: 7 }, 500, 'x'],
    [{ code: 'THROWN', message: '' }, 500, 'The code threw an error without a message.'],
    [{ code: 'SYNTAX', message: 'Unexpected token' }, 500, 'The code does not compile: Unexpected token'],
    [{ code: 'SYNTAX', message: 'No', line: 3 }, 500, 'The code does not compile: No (line 3)'],
    [{ code: 'SYNTAX', message: 'No', line: 3, column: 7 }, 500, 'The code does not compile: No (line 3, column 7)'],
    [{ code: 'SYNTAX', message: 'No', column: 7 }, 500, 'The code does not compile: No'],
    [{ code: 'NO_FUNCTION' }, 500, 'The code exports no function.'],
    [{ code: 'TIMEOUT_WALL' }, 408, 'The code must end within 30 s.'],
    [{ code: 'TIMEOUT_CPU' }, 408, 'The code must not take more than 5 s of CPU time.'],
    [{ code: 'OUT_OF_MEMORY' }, 500, 'The code must not take more than 128 MB of memory.'],
    [{ code: 'OUTPUT_TOO_LARGE' }, 500, 'The result must not be larger than 5 MB.'],
    [{ code: 'EXECUTOR_DIED' }, 500, 'The process that ran the code ended before the code did.'],
  ])('%o is %i', (fault, status, sentence) => {
    const failure = failureOf(fault);
    expect(seen(failure)).toEqual({ ...runtimeWords(sentence), status });
    // The words are for the caller and not for the log, which has messages and causes.
    expect(failure.cause).toBeUndefined();
  });

  test('messages have the limits that are configured', () => {
    const small = { wallMs: 1_500, cpuMs: 250, memoryMb: 64, outputBytesMax: 1024 * 1024 };
    expect(wordsOf(failureOf({ code: 'TIMEOUT_WALL' }, small))).toEqual({ error: ['The code must end within 1.5 s.'] });
    expect(wordsOf(failureOf({ code: 'OUTPUT_TOO_LARGE' }, small))).toEqual({
      error: ['The result must not be larger than 1 MB.'],
    });
  });

  test.each([
    ['tenant', 'too_many_requests', 429],
    ['all', 'unavailable', 503],
  ] as const)('no room for the run of %s is %s, with the time to wait', (over, code, status) => {
    const fault = { code: 'BUSY', over, retryAfterSeconds: 7 } as const;
    for (const failure of [failureOf(fault), busy(fault)]) {
      expect(failure).toMatchObject({ code, status, retryAfterSeconds: 7 });
      expect(failure.errors).toBeUndefined();
    }
  });

  test('where no wall stands, 503 without a time to wait', () => {
    for (const failure of [failureOf({ code: 'NO_WALL' }), noWall()])
      expect(failure).toMatchObject({ code: 'unavailable', status: 503, retryAfterSeconds: undefined });
  });

  test('a sentence of ours may have a status of its own', () => {
    expect(seen(runtimeError('No.'))).toEqual(runtimeWords('No.'));
    expect(runtimeError('No.', 408).status).toBe(408);
  });
});

describe('a response of the code’s own making', () => {
  test.each<[string, ThrownResponse, { status: number; headers: Record<string, string>; body: string | undefined }]>([
    [
      'a text is sent as text',
      { status: 418, headers: {}, body: 'tea' },
      { status: 418, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: 'tea' },
    ],
    [
      'an object is sent as JSON',
      { status: 201, headers: {}, body: { a: [1, null] } },
      { status: 201, headers: { 'content-type': 'application/json' }, body: '{"a":[1,null]}' },
    ],
    [
      'false is sent as JSON',
      { status: 200, headers: {}, body: false },
      { status: 200, headers: { 'content-type': 'application/json' }, body: 'false' },
    ],
    [
      'an empty text is a body',
      { status: 302, headers: { Location: 'https://example.com/' }, body: '' },
      {
        status: 302,
        headers: { location: 'https://example.com/', 'content-type': 'text/plain; charset=utf-8' },
        body: '',
      },
    ],
    [
      'its own type stands, however it is spelled',
      { status: 200, headers: { 'Content-Type': 'text/csv' }, body: 'a,b' },
      { status: 200, headers: { 'content-type': 'text/csv' }, body: 'a,b' },
    ],
    ['no body is none', { status: 200, headers: {} }, { status: 200, headers: {}, body: undefined }],
    ['null is no body', { status: 500, headers: {}, body: null }, { status: 500, headers: {}, body: undefined }],
    ['204 has no body', { status: 204, headers: {}, body: 'x' }, { status: 204, headers: {}, body: undefined }],
    ['205 has no body', { status: 205, headers: {}, body: 'x' }, { status: 205, headers: {}, body: undefined }],
    ['304 has no body', { status: 304, headers: {}, body: 'x' }, { status: 304, headers: {}, body: undefined }],
    ['the last status is 599', { status: 599, headers: {} }, { status: 599, headers: {}, body: undefined }],
  ])('%s', (_, response, wanted) => {
    const { status, headers, body } = responseOf(response);
    expect({ status, headers: { ...headers }, body }).toEqual(wanted);
  });

  test.each([101, 199, 600, 0, -1, 200.5, Number.NaN])('a status of %d is refused', (status) => {
    expect(seen(failureOf({ code: 'RESPONSE', response: { status, headers: {}, body: 'x' } }))).toEqual(
      runtimeWords('A CustomHttpResponseError must have a status from 200 to 599.'),
    );
  });

  test.each([
    'Connection',
    'Keep-Alive',
    'Transfer-Encoding',
    'TE',
    'Trailer',
    'Upgrade',
    'Proxy-Authenticate',
    'Content-Length',
    'Content-Encoding',
    'Date',
    'Server',
    'Alt-Svc',
    'Cache-Control',
    'Clear-Site-Data',
    'Content-Security-Policy',
    'Content-Security-Policy-Report-Only',
    'Referrer-Policy',
    'Service-Worker-Allowed',
    'Set-Cookie',
    'Set-Cookie2',
    'Strict-Transport-Security',
    'SVC-Trace-Id',
    'Access-Control-Allow-Origin',
    'Cross-Origin-Opener-Policy',
    'X-Frame-Options',
    'X-Content-Type-Options',
    'X-Accel-Redirect',
    'X-Accel-Expires',
    'X-Sendfile',
    'X-LiteSpeed-Location',
    'X-Reproxy-URL',
    'X-XSS-Protection',
    'X-Forwarded-For',
    'Refresh',
    'Link',
    'NEL',
    'Report-To',
    'Reporting-Endpoints',
    'WWW-Authenticate',
    'Origin-Agent-Cluster',
    'Permissions-Policy',
    'SourceMap',
    'Surrogate-Control',
    'CDN-Cache-Control',
    'Expires',
    'Age',
    'Any-Other',
  ])('%s is not the code’s to send', (name) => {
    expect({ ...responseOf({ status: 200, headers: { [name]: 'x', 'X-Mine': 'y' } }).headers }).toEqual({
      'x-mine': 'y',
    });
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a name with a blank', { 'a b': 'x' }, 'must have headers with valid names'],
    ['an empty name', { '': 'x' }, 'must have headers with valid names'],
    ['a name with a line break', { 'a\r\nb': 'x' }, 'must have headers with valid names'],
    ['a value with a line break', { a: 'x\r\nset-cookie: y' }, 'must have headers with valid values'],
    ['a value with NUL', { a: 'x\0' }, 'must have headers with valid values'],
    ['a value beyond Latin-1', { a: '€' }, 'must have headers with valid values'],
    ['a value that is no text', { a: 5 }, 'must have headers with valid values'],
    [
      'too many',
      Object.fromEntries([...Array(51).keys()].map((at) => [`h${at}`, 'x'])),
      'must have at most 50 headers',
    ],
    ['too large', { a: 'x'.repeat(8192) }, 'must have at most 8192 bytes of headers'],
    [
      'too large together, by what would be left out as well',
      { 'set-cookie': 'x'.repeat(8000), a: 'x'.repeat(200) },
      'must have at most 8192 bytes of headers',
    ],
  ])('headers with %s are refused', (_, headers, sentence) => {
    const response = { status: 200, headers: headers as Record<string, string> };
    expect(seen(failureOf({ code: 'RESPONSE', response }))).toEqual(
      runtimeWords(`A CustomHttpResponseError ${sentence}.`),
    );
  });

  test('headers up to the bound go out, tabs and Latin-1 among them', () => {
    const headers = Object.fromEntries([...Array(50).keys()].map((at) => [`x-h${at}`, '\tü']));
    expect(Object.keys(responseOf({ status: 200, headers }).headers)).toHaveLength(50);
  });

  test('a header named __proto__ is one that code may not send', () => {
    const headers = JSON.parse('{"__proto__":"x"}') as Record<string, string>;
    expect(Object.entries(responseOf({ status: 200, headers }).headers)).toEqual([]);
  });

  test('a body is bounded as a result is, in bytes', () => {
    const small = { ...limits, outputBytesMax: 1024 * 1024 };
    const most = 'x'.repeat(1024 * 1024);
    expect(responseOf({ status: 200, headers: {}, body: most }, small).body).toBe(most);
    for (const body of [`${most}x`, 'ü'.repeat(600 * 1024), [most]])
      expect(seen(failureOf({ code: 'RESPONSE', response: { status: 200, headers: {}, body } }, small))).toEqual(
        runtimeWords('The result must not be larger than 1 MB.'),
      );
  });
});
