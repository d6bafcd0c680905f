// What each client of the API does, as one table. test/process/sdk-behaviours.test.ts runs all clients against it.
// Arguments are JSON. { $ref }, { $big } and { $nan } stand for what JSON cannot say, and '$name' for what the test prepared.
import type { Fault } from '../test/support/misbehaving-server.ts';

export type Step = {
  /** Resource and method in the names of the client for Node. */
  call: string;
  args: unknown[];
  /** In the names of the client for Node; times in ms. */
  options?: Record<string, unknown>;
  /** Goes on with a list, and takes so many of its records. The value is their ids. */
  take?: number;
  abortAfterMs?: number;
};

export type Behaviour = {
  name: string;
  /** The server that the client reaches. Default: the misbehaving one. */
  via?: 'direct' | 'tls' | 'no_tls' | 'expired' | 'other_name' | 'away';
  key?: '$wrongKey' | '$otherKey' | '$readerKey' | '$limitedKey' | '$manyKey';
  client?: {
    timeout?: number;
    retries?: number;
    maxWait?: number;
    realClock?: true;
    /** The first request goes to an address where no server listens. */
    firstIsAway?: true;
  };
  faults?: Fault[];
  /** '$0.id' in an argument is the id in the value of the first step. */
  steps: Step[];
  /** Of the last step: a part of its value or of its error. */
  value?: unknown;
  error?: Record<string, unknown>;
  /** How many requests reached the server, in all steps. */
  requests?: number;
  /** All requests have one idempotency key and one body. */
  same?: true;
  /** What the last step waited in all, in ms: at least, and at most. */
  waited?: [number, number];
  /** How many tokens of this run are stored afterwards. */
  stored?: number;
  /** What the destination of the proxy received last. */
  received?: Record<string, unknown>;
};

const problem = (status: number, code: string, headers: Record<string, string> = {}): Fault => ({
  do: 'answer',
  status,
  headers: { 'content-type': 'application/problem+json', ...headers },
  body: JSON.stringify({ title: 'A problem', status, code, trace_id: 'trace-1' }),
});
/** A server between client and vault has problems of a shape of its own. */
const foreign = (problem: object): Fault => ({
  do: 'answer',
  status: 503,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ code: 'NO_UPSTREAM', ...problem }),
});
const times = (count: number, fault: Fault): Fault[] => Array<Fault>(count).fill(fault);
/** As a load balancer answers in place of the vault. */
const html = (status: number): Fault => ({
  do: 'answer',
  status,
  headers: { 'content-type': 'text/html' },
  body: '<html>secret of the balancer</html>',
});
const page = (next: string | undefined): Fault => ({
  do: 'answer',
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ pagination: { page_size: 1, next }, data: [{ id: 'one' }] }),
});

/** Its metadata tells the tokens of one run from all others. */
const create = (data: unknown = 'secret', options?: Step['options']): Step => ({
  call: 'tokens.create',
  args: [{ data, metadata: { run: '$run' } }],
  ...(options && { options }),
});
const once: Omit<Behaviour, 'name'> = { steps: [create()], stored: 1, same: true, value: { type: 'token' } };
const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 };
const createCard: Step = { call: 'tokens.create', args: [{ type: 'card', data: card }] };
const get = (id: string, options?: Step['options']): Step => ({
  call: 'tokens.get',
  args: [id],
  ...(options && { options }),
});
const detokenize = (body: unknown): Step => ({ call: 'tokens.detokenize', args: [body] });
const proxied = (path: string, init: object): Step => ({ call: 'proxy.fetch', args: [`$destination${path}`, init] });
/** Done once, whatever happens on the way. */
const charge = (path: string, idempotencyKey: string): Step => ({
  ...proxied(path, { method: 'POST', json: { amount: 1 } }),
  options: { idempotencyKey },
});

const answers: Behaviour[] = [
  {
    name: 'a token is created, and read back',
    steps: [create('plain'), get('$0.id')],
    value: { data: 'plain' },
    requests: 2,
  },
  {
    name: 'Unicode arrives as it was sent, in values, keys and metadata',
    steps: [
      { call: 'tokens.create', args: [{ data: { 'Łódź 日本': 'e\u0301 💳 \u2028' }, metadata: { ключ: '💳' } }] },
      get('$0.id'),
    ],
    value: { data: { 'Łódź 日本': 'e\u0301 💳 \u2028' }, metadata: { ключ: '💳' } },
  },
  {
    name: 'an id with reserved characters is encoded in the path',
    steps: [{ call: 'tokens.create', args: [{ id: "ü:1 @'$run'*", data: 'x' }] }, get('$0.id')],
    value: { id: "ü:1 @'$run'*" },
  },
  { name: 'an empty id is refused, and nothing is sent', steps: [get('')], error: { kind: 'TypeError' }, requests: 0 },
  {
    name: 'an id that is no text is refused, and nothing is sent',
    steps: [{ call: 'tokens.get', args: [{ id: 'abc' }] }],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'an id of dots is refused, and nothing is sent',
    steps: [get('..')],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'an unknown option is refused, and nothing is sent',
    steps: [get('abc', { retry: 1 })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'a trace id that no header can hold is refused, and nothing is sent',
    steps: [get('abc', { traceId: 'secret\nx' })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'an answer without a body is nothing',
    steps: [create(), { call: 'tokens.delete', args: ['$0.id'] }],
    value: null,
  },
  {
    name: 'a problem with many errors has all of them, and one short line',
    steps: [
      {
        call: 'tokens.tokenize',
        args: [Array.from({ length: 30 }, () => ({ type: 'card', data: { number: 'secret' } }))],
      },
    ],
    error: { code: 'invalid_input', status: 400, count: 30 },
    requests: 1,
  },
  {
    name: 'a wrong key is a 401, sent once',
    key: '$wrongKey',
    steps: [create()],
    error: { code: 'unauthorized', status: 401, attempts: 1 },
    requests: 1,
  },
  {
    name: 'a token of another tenant is a 404',
    key: '$otherKey',
    steps: [get('$cardId')],
    error: { code: 'not_found', status: 404 },
    requests: 1,
  },
  {
    name: 'a permission that is missing is named',
    key: '$readerKey',
    steps: [create()],
    error: { code: 'permission_missing', status: 403 },
    requests: 1,
  },
  {
    name: 'a trace id of the caller is in the error',
    steps: [get('no-such-token', { traceId: 'order-4711' })],
    error: { code: 'not_found', trace_id: 'order-4711' },
  },
  {
    name: 'a partial batch has results and errors',
    steps: [
      { call: 'tokens.tokenize', args: [['one', { type: 'card', data: { number: '1' } }]], options: { partial: true } },
    ],
    value: { errors_total: 2, codes: { '[1].data.number': ['invalid', 'check_digit'] } },
  },
  {
    name: 'a body of 2 MB is a 413, although the server does not read it all',
    via: 'direct',
    // The server closes the connection: now and then the answer is lost, and comes at a later attempt.
    client: { retries: 15, maxWait: 600_000 },
    steps: [create('x'.repeat(2_000_000))],
    error: { code: 'payload_too_large', status: 413 },
  },
  {
    name: 'an answer that is not JSON is an error without its text',
    faults: [html(200)],
    steps: [get('abc')],
    error: { code: 'unexpected_answer', status: 200 },
    requests: 1,
  },
  {
    name: 'an answer that is not HTTP is an error without its text',
    client: { retries: 0 },
    faults: [{ do: 'garble', text: 'the secret of another server\r\n\r\n' }],
    steps: [get('abc')],
    error: { code: 'connection_failed', attempts: 1 },
    requests: 1,
  },
  {
    name: 'a redirect is not followed: key and body stay',
    faults: [{ do: 'answer', status: 307, headers: { location: '/elsewhere' } }],
    steps: [create()],
    error: { code: 'unexpected_answer', status: 307 },
    requests: 1,
  },
];

const numbers: Behaviour[] = [
  {
    name: 'the largest exact integer arrives as it was sent',
    steps: [create({ most: 9_007_199_254_740_991, least: -9_007_199_254_740_991 }), get('$0.id')],
    value: { data: { most: 9_007_199_254_740_991, least: -9_007_199_254_740_991 } },
  },
  {
    name: 'a larger integer is refused at its path, and nothing is sent',
    steps: [create({ amounts: [1, { $big: '9007199254740993' }] })],
    error: { code: 'invalid_input', codes: { 'data.amounts[1]': ['inexact_number'] }, attempts: 0 },
    requests: 0,
  },
  {
    name: 'NaN is refused at its path, and nothing is sent',
    steps: [create({ amount: { $nan: true } })],
    error: { code: 'invalid_input', codes: { 'data.amount': ['wrong_type'] } },
    requests: 0,
  },
];

const lists: Behaviour[] = [
  {
    name: 'a list of more than 1,000 records goes on to its end, each record once',
    key: '$manyKey',
    steps: [{ call: 'tokens.list', args: [{ size: 100 }], take: 2_000 }],
    value: { distinct: 1_050 },
    requests: 11,
  },
  {
    name: 'a search goes on too',
    key: '$manyKey',
    steps: [{ call: 'tokens.search', args: [{ query: 'type:token', size: 100 }], take: 250 }],
    value: { distinct: 250 },
    requests: 3,
  },
  {
    name: 'a list by page numbers goes on to its last page',
    key: '$manyKey',
    steps: [{ call: 'applications.list', args: [{ size: 1 }], take: 100 }],
    value: { distinct: 3 },
    requests: 3,
  },
  {
    name: 'a list that the caller leaves asks for no further page',
    key: '$manyKey',
    steps: [{ call: 'tokens.list', args: [{ size: 5 }], take: 5 }],
    value: { distinct: 5 },
    requests: 1,
  },
  {
    name: 'a cursor that the server repeats ends the list with an error',
    faults: times(9, page('again')),
    steps: [{ call: 'tokens.list', args: [{}], take: 100 }],
    error: { code: 'unexpected_answer' },
    requests: 2,
  },
];

const retries: Behaviour[] = [
  {
    name: 'a POST that is reset before the server has it is sent again',
    faults: [{ do: 'reset_before' }],
    ...once,
    requests: 2,
  },
  { name: 'a POST whose answer is lost is done once', faults: [{ do: 'reset_after' }], ...once, requests: 2 },
  { name: 'a POST whose answer is cut is done once', faults: [{ do: 'cut' }], ...once, requests: 2 },
  {
    name: 'a POST without an answer in time is sent again',
    client: { timeout: 700 },
    faults: [{ do: 'hang' }],
    ...once,
    requests: 2,
  },
  {
    name: 'no answer in time at each attempt is a timeout',
    client: { timeout: 150, retries: 1 },
    faults: times(9, { do: 'hang' }),
    steps: [create()],
    error: { code: 'timeout', attempts: 2 },
    requests: 2,
  },
  {
    name: 'a 503 is sent again after the time that it asks for',
    faults: [problem(503, 'unavailable', { 'retry-after': '2' })],
    ...once,
    requests: 2,
    waited: [2_000, 3_000],
  },
  { name: 'a 502 and a 504 of a load balancer are sent again', faults: [html(502), html(504)], ...once, requests: 3 },
  {
    name: 'a 503 whose errors have another shape is sent again, and says its code only',
    faults: [
      foreign({ errors: ['secret'] }),
      foreign({ errors: { body: 'secret' }, codes: 'secret' }),
      foreign({ errors: { body: [{ text: 'secret' }] }, detail: { text: 'secret' } }),
      foreign({ errors: 'secret', codes: { body: null }, trace_id: ['secret'] }),
    ],
    steps: [create()],
    error: { code: 'NO_UPSTREAM', status: 503, attempts: 4, message: 'POST /tokens: 503 NO_UPSTREAM' },
    requests: 4,
  },
  {
    name: 'a 502 that stays is an error without its text, after growing pauses',
    faults: times(9, html(502)),
    steps: [create()],
    error: { code: 'unexpected_answer', status: 502, attempts: 4 },
    requests: 4,
    same: true,
    waited: [870, 1_750],
  },
  {
    name: 'a 429 for a minute passes, however often the server says it',
    faults: times(12, problem(429, 'rate_limit', { 'retry-after': '5' })),
    ...once,
    requests: 13,
    waited: [60_000, 90_000],
  },
  {
    name: 'a 429 that asks for a minute waits for a minute',
    faults: [problem(429, 'too_many_requests', { 'retry-after': '60' })],
    ...once,
    requests: 2,
    waited: [60_000, 61_000],
  },
  {
    name: 'a 429 beyond the longest wait is an error',
    client: { maxWait: 100_000 },
    faults: times(9, problem(429, 'too_many_requests', { 'retry-after': '60' })),
    steps: [create()],
    error: { code: 'too_many_requests', status: 429, attempts: 2 },
    requests: 2,
  },
  {
    name: 'a daily limit is an error at once',
    key: '$limitedKey',
    steps: [get('$cardId')],
    error: { code: 'daily_limit', status: 429, attempts: 1 },
    requests: 1,
  },
  {
    name: 'after RateLimit says that nothing is left, the next call waits',
    faults: [{ do: 'pass', headers: { ratelimit: '"rate_limit";r=0;t=3, "daily_reveals";r=9;t=3600' } }],
    steps: [create(), get('$0.id')],
    value: { type: 'token' },
    requests: 2,
    waited: [2_000, 3_100],
  },
  {
    name: 'a 500 is an error at once',
    faults: [problem(500, 'internal')],
    steps: [create()],
    error: { status: 500 },
    requests: 1,
  },
  {
    name: 'code that failed is not run again, whatever its status',
    faults: [problem(503, 'code_failed')],
    steps: [{ call: 'reactors.react', args: ['abc', {}] }],
    error: { code: 'code_failed', attempts: 1 },
    requests: 1,
  },
  {
    name: 'while the first request is under way, the client asks again',
    faults: [problem(409, 'idempotency_in_progress')],
    ...once,
    requests: 2,
  },
  {
    name: 'a request that changes something without a key is not sent again',
    faults: [{ do: 'reset_before' }],
    steps: [{ call: 'sessions.collectSecurityCode', args: ['abc', { cvc: '123' }] }],
    error: { code: 'connection_failed', attempts: 1 },
    requests: 1,
  },
  {
    name: 'a search is sent again, without a key',
    faults: [{ do: 'reset_after' }],
    steps: [{ call: 'tokens.search', args: [{ query: 'metadata.run:$run' }] }],
    value: { data: [] },
    requests: 2,
  },
  {
    name: 'a DELETE whose answer is lost has succeeded',
    faults: [{ do: 'pass' }, { do: 'reset_after' }],
    steps: [create(), { call: 'tokens.delete', args: ['$0.id'] }],
    value: null,
    requests: 3,
    stored: 0,
  },
  {
    name: 'a DELETE whose answer a load balancer replaces has succeeded',
    faults: [{ do: 'pass' }, { do: 'pass', status: 502 }],
    steps: [create(), { call: 'tokens.delete', args: ['$0.id'] }],
    value: null,
    requests: 3,
    stored: 0,
  },
  {
    name: 'a DELETE of an unknown id is a 404 after a connection that was refused',
    client: { firstIsAway: true },
    steps: [{ call: 'tokens.delete', args: ['no-such-token'] }],
    error: { code: 'not_found', status: 404, attempts: 2 },
    requests: 1,
  },
  {
    name: 'a DELETE of an unknown id is a 404 after a 503',
    faults: [problem(503, 'unavailable')],
    steps: [{ call: 'tokens.delete', args: ['no-such-token'] }],
    error: { code: 'not_found', status: 404, attempts: 2 },
    requests: 2,
  },
  {
    name: 'a DELETE of an unknown id is a 404',
    steps: [{ call: 'tokens.delete', args: ['no-such-token'] }],
    error: { code: 'not_found', status: 404 },
    requests: 1,
  },
  {
    name: 'without retries a request is sent once',
    client: { retries: 0 },
    faults: [{ do: 'reset_before' }],
    steps: [create()],
    error: { code: 'connection_failed', attempts: 1 },
    requests: 1,
  },
  {
    name: 'a call that is aborted while it waits for an answer ends',
    faults: [{ do: 'hang' }],
    steps: [{ ...create(), abortAfterMs: 100 }],
    error: { kind: 'aborted' },
    requests: 1,
  },
  {
    name: 'a call that is aborted in a pause is not sent again',
    client: { realClock: true },
    faults: times(9, problem(503, 'unavailable', { 'retry-after': '30' })),
    steps: [{ ...create(), abortAfterMs: 150 }],
    error: { kind: 'aborted' },
    requests: 1,
  },
];

const keys: Behaviour[] = [
  {
    name: 'two calls with an idempotency key of the caller are done once',
    steps: [create('secret', { idempotencyKey: 'order-$run' }), create('secret', { idempotencyKey: 'order-$run' })],
    value: { id: '$0.id' },
    requests: 2,
    same: true,
    stored: 1,
  },
  {
    name: 'an idempotency key of another body is a 422',
    steps: [create('secret', { idempotencyKey: 'order-$run' }), create('other', { idempotencyKey: 'order-$run' })],
    error: { code: 'idempotency_key_reused', status: 422 },
    requests: 2,
    stored: 1,
  },
  {
    name: 'an empty idempotency key is refused, and nothing is sent',
    steps: [create('secret', { idempotencyKey: '' })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'an empty trace id is refused, and nothing is sent',
    steps: [create('secret', { traceId: '' })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'an event of the vault has a receiver, whose secret is new after a rotation',
    steps: [
      {
        call: 'webhooks.create',
        args: [{ name: 'Orders', url: 'https://shop.example/events', events: ['token.created'] }],
      },
      { call: 'webhooks.rotateSecret', args: ['$0.id'] },
      { call: 'webhooks.get', args: ['$0.id'] },
    ],
    value: { id: '$0.id', name: 'Orders', events: ['token.created'] },
    requests: 3,
  },
  {
    name: 'calls without such a key are done twice',
    steps: [create(), create()],
    value: { type: 'token' },
    requests: 2,
    stored: 2,
  },
  {
    name: 'a server that is killed before it answers: the request is done once',
    faults: [{ do: 'kill_after' }],
    ...once,
    requests: 2,
  },
];

const connections: Behaviour[] = [
  {
    name: 'a server that is away is an error, after all retries',
    via: 'away',
    steps: [create()],
    error: { code: 'connection_failed', attempts: 4 },
    waited: [870, 1_750],
  },
  { name: 'a server with a valid certificate is reached', via: 'tls', steps: [create()], value: { type: 'token' } },
  {
    name: 'a server without TLS is a connection that failed',
    via: 'no_tls',
    steps: [create()],
    error: { code: 'connection_failed', attempts: 4 },
  },
  {
    name: 'an expired certificate is refused at once',
    via: 'expired',
    steps: [create()],
    error: { code: 'certificate_refused', attempts: 1 },
  },
  {
    name: 'a certificate of another name is refused at once',
    via: 'other_name',
    steps: [create()],
    error: { code: 'certificate_refused', attempts: 1 },
  },
];

const expressions: Behaviour[] = [
  {
    name: 'an expression takes a value by keys of any characters',
    steps: [
      create({ 'a b': [{ [`it's "}}`]: 'deep' }] }),
      detokenize({ x: { $ref: { id: '$0.id', path: ['a b', 0, `it's "}}`] } } }),
    ],
    value: { x: 'deep' },
  },
  {
    name: 'filters have arguments of their types',
    steps: [
      create('abcdef'),
      detokenize([
        { $ref: { id: '$0.id', filters: [['replace', 'abc', "it's "]] } },
        { $ref: { id: '$0.id', filters: [['slice', 0, 2]] } },
      ]),
    ],
    value: ["it's def", 'ab'],
  },
  {
    name: 'a string with braces is refused where expressions are read, and nothing is sent',
    steps: [detokenize({ note: ['{{ secret }}'] })],
    error: { code: 'invalid_input', codes: { 'note[0]': ['bad_expression'] } },
    requests: 0,
  },
  {
    name: 'the proxy puts values into body, path, query and headers',
    steps: [
      createCard,
      proxied('/cards/{{ $0.id | json: "$.number" }}?month={{ $0.id | json: "$.expiration_month" }}', {
        method: 'POST',
        json: { number: { $ref: { id: '$0.id', path: ['number'] } }, amount: 1250 },
        headers: { authorization: 'Bearer {{ $0.id | json: "$.expiration_year" }}' },
      }),
    ],
    value: { status: 200 },
    received: {
      method: 'POST',
      url: '/cards/4242424242424242?month=12',
      authorization: 'Bearer 2030',
      body: '{"number":"4242424242424242","amount":1250}',
    },
    requests: 2,
  },
  {
    name: 'the proxy puts values into a form',
    steps: [
      createCard,
      proxied('/charges', {
        method: 'POST',
        form: {
          'card[number]': { $ref: { id: '$0.id', path: ['number'] } },
          note: 'ä & b',
          confirm: true,
          items: [1, 2],
        },
      }),
    ],
    value: { status: 200 },
    received: {
      'content-type': 'application/x-www-form-urlencoded',
      body: 'card%5Bnumber%5D=4242424242424242&note=%C3%A4+%26+b&confirm=true&items=1&items=2',
    },
  },
  {
    name: 'a string with braces is refused in a form, and nothing is sent',
    steps: [proxied('/', { method: 'POST', form: { note: 'Dear {{ name }}' } })],
    error: { code: 'invalid_input', codes: { note: ['bad_expression'] } },
    requests: 0,
  },
  {
    name: 'a form has texts, numbers and booleans, and nothing else is sent',
    steps: [proxied('/', { method: 'POST', form: { card: { number: '4242' } } })],
    error: { code: 'invalid_input', codes: { card: ['wrong_type'] } },
    requests: 0,
  },
  {
    name: 'an unknown option of a proxied request is refused, and nothing is sent',
    steps: [proxied('/', { method: 'POST', jsn: { amount: 1 } })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'a failure of the destination is a response, no error',
    steps: [proxied('/fails', { method: 'GET' })],
    value: { status: 500, text: 'the destination fails' },
  },
  {
    name: 'a redirect of the destination is returned',
    steps: [proxied('/moves', { method: 'GET' })],
    value: { status: 302 },
    requests: 1,
  },
  {
    name: 'a failure of the proxy itself is an error',
    steps: [proxied('/', { method: 'POST', json: { number: { $ref: { id: 'no-such-token' } } } })],
    error: { code: 'bad_request', status: 400 },
  },
  {
    name: 'a sentence with a subject of its own stands apart from its path',
    steps: [createCard, proxied('/', { method: 'POST', json: { cvc: { $ref: { id: '$0.id', path: ['cvc'] } } } })],
    error: { code: 'invalid_input', status: 400, apart: 'body.cvc: The token has no security code' },
  },
  {
    name: 'a header that HTTP cannot hold is refused without its value',
    steps: [proxied('/', { method: 'GET', headers: { authorization: 'Bearer secret\nx: y' } })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'a header name that HTTP does not allow is refused without it',
    steps: [proxied('/', { method: 'GET', headers: { 'x secret': 'x' } })],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'a proxy key that no header can hold is refused, and nothing is sent',
    steps: [{ call: 'proxy.fetch', args: ['/charges', { method: 'GET' }], options: { proxyKey: 'secret\nx' } }],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'an empty proxy key is refused, and nothing is sent',
    steps: [{ call: 'proxy.fetch', args: ['/charges', { method: 'GET' }], options: { proxyKey: '' } }],
    error: { kind: 'TypeError' },
    requests: 0,
  },
  {
    name: 'a cookie of a destination is not sent with the next request',
    steps: [proxied('/signs-in', { method: 'GET' }), proxied('/cookies', { method: 'GET' })],
    value: { status: 200, text: 'cookies: undefined' },
    requests: 2,
  },
  {
    name: 'an error of the proxy whose end does not arrive in time is a timeout',
    client: { timeout: 700 },
    faults: [{ do: 'answer', status: 502, headers: { 'content-length': '9' }, body: '{', stalls: true }],
    steps: [proxied('/', { method: 'GET' })],
    error: { code: 'timeout', attempts: 1 },
    requests: 1,
  },
  {
    name: 'a path with dots stays at the destination',
    steps: [proxied('/../../tokens', { method: 'GET' })],
    value: { status: 200 },
    received: { method: 'GET', url: '/tokens' },
  },
  {
    name: 'a proxied request is sent once',
    faults: [{ do: 'reset_after' }],
    steps: [proxied('/charges', { method: 'POST', json: { amount: 1 } })],
    error: { code: 'connection_failed', attempts: 1 },
    requests: 1,
  },
  {
    name: 'a proxied request with an idempotency key is repeated, and reaches its destination once',
    faults: [problem(503, 'unavailable'), { do: 'reset_after' }, problem(409, 'idempotency_in_progress')],
    steps: [charge('/counted/$run', 'order-$run'), proxied('/count/$run', { method: 'GET' })],
    value: { status: 200, text: 'received: 1' },
    requests: 5,
  },
  {
    name: 'a proxied request whose outcome is not known says so, and is not sent again',
    steps: [charge('/breaks', 'order-$run')],
    error: { code: 'outcome_unknown', status: 409, attempts: 2 },
    requests: 2,
    same: true,
  },
  {
    name: 'a proxied DELETE that finds nothing at its second attempt has not succeeded',
    faults: [{ do: 'reset_after' }, problem(404, 'not_found')],
    steps: [
      {
        call: 'proxy.fetch',
        args: ['$destination/x', { method: 'DELETE' }],
        options: { idempotencyKey: 'order-$run' },
      },
    ],
    error: { code: 'not_found', status: 404, attempts: 2 },
    requests: 2,
  },
  {
    name: 'a proxied GET has no idempotency key, and nothing is sent',
    steps: [{ call: 'proxy.fetch', args: ['$destination/x', { method: 'GET' }], options: { idempotencyKey: 'x' } }],
    error: { kind: 'TypeError' },
    requests: 0,
  },
];

export const behaviours: Behaviour[] = [
  ...answers,
  ...numbers,
  ...lists,
  ...retries,
  ...keys,
  ...connections,
  ...expressions,
];
