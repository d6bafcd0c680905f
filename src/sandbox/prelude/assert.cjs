// Node's assert: the same checks, with Node's messages for what is short.
'use strict';

const { inspect } = require('./inspect.cjs');
const { isDeepEqual } = require('./deep-equal.cjs');
const { checkFunction, invalidArgType } = require('./errors.cjs');

const HEADS = {
  deepStrictEqual: 'Expected values to be strictly deep-equal:',
  strictEqual: 'Expected values to be strictly equal:',
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: 'Expected values to be loosely deep-equal:',
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  notIdentical: 'Values identical but not reference-equal:',
};

const show = (value) =>
  inspect(value, {
    compact: false,
    customInspect: false,
    depth: 1000,
    maxArrayLength: Infinity,
    showHidden: false,
    showProxy: false,
    sorted: true,
    getters: true,
    breakLength: Infinity,
  });

const isSimple = (value) => (typeof value !== 'object' || value === null) && typeof value !== 'function';

const difference = (before, after) => {
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--)
      lengths[row][column] =
        before[row] === after[column]
          ? lengths[row + 1][column + 1] + 1
          : Math.max(lengths[row + 1][column], lengths[row][column + 1]);
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push(`  ${before[i++]}`);
      j++;
    } else if (i < before.length && (j === after.length || lengths[i + 1][j] >= lengths[i][j + 1]))
      lines.push(`+ ${before[i++]}`);
    else lines.push(`- ${after[j++]}`);
  }
  return lines;
};

// The table of common lines grows with the square.
const LINES_MAX = 1000;

const describeDifference = (actual, expected, operator) => {
  const isReference = operator === 'strictEqual' && !isSimple(actual) && !isSimple(expected);
  let head = HEADS[isReference ? 'strictEqualObject' : operator];
  const left = show(actual).split('\n').slice(0, LINES_MAX);
  const right = show(expected).split('\n').slice(0, LINES_MAX);
  if (
    left.length === 1 &&
    right.length === 1 &&
    left[0] !== right[0] &&
    isSimple(actual) &&
    isSimple(expected) &&
    left[0].length + right[0].length <= 12 &&
    (actual !== 0 || expected !== 0)
  )
    return `${head}\n\n${left[0]} !== ${right[0]}\n`;
  if (left.join('\n') === right.join('\n')) {
    head = operator === 'strictEqual' ? HEADS.notIdentical : head;
    return `${head}\n\n${left.join('\n')}\n`;
  }
  return `${head}\n+ actual - expected\n\n${difference(left, right).join('\n')}\n`;
};

const LOOSE_LENGTH_MAX = 512;

const describe = (actual, expected, operator) => {
  if (operator === 'deepStrictEqual' || operator === 'strictEqual')
    return describeDifference(actual, expected, operator);
  if (operator === 'notDeepStrictEqual' || operator === 'notStrictEqual') {
    const isReference = operator === 'notStrictEqual' && !isSimple(actual);
    const lines = show(actual).split('\n').slice(0, 50);
    let head = HEADS[isReference ? 'notStrictEqualObject' : operator];
    return lines.length === 1
      ? `${head}${lines[0].length > 5 ? '\n\n' : ' '}${lines[0]}`
      : `${head}\n\n${lines.join('\n')}\n`;
  }
  const clip = (text) => (text.length > LOOSE_LENGTH_MAX ? `${text.slice(0, LOOSE_LENGTH_MAX - 3)}...` : text);
  const left = clip(show(actual));
  const right = clip(show(expected));
  if (operator === 'deepEqual') return `${HEADS.deepEqual}\n\n${left}\n\nshould loosely deep-equal\n\n${right}`;
  return operator === 'notDeepEqual'
    ? `${HEADS.notDeepEqual}\n\n${left}\n\nshould not loosely deep-equal\n\n${right}`
    : `${left} ${operator} ${right}`;
};

class AssertionError extends Error {
  constructor(options) {
    if (typeof options !== 'object' || options === null) throw invalidArgType('options', 'of type object', options);
    const { message, operator, actual, expected } = options;
    super(message === undefined ? describe(actual, expected, operator) : `${message}`);
    this.generatedMessage = message === undefined;
    Object.defineProperty(this, 'name', {
      value: 'AssertionError [ERR_ASSERTION]',
      writable: true,
      configurable: true,
    });
    this.code = 'ERR_ASSERTION';
    this.actual = actual;
    this.expected = expected;
    this.operator = operator;
    // Written when it is first read: now, while the name has the code in it.
    void this.stack;
    this.name = 'AssertionError';
  }

  toString() {
    return `${this.name} [${this.code}]: ${this.message}`;
  }
}

const fail = (options) => {
  if (options.message instanceof Error) throw options.message;
  const error = new AssertionError(options);
  if (options.generated !== undefined) error.generatedMessage = options.generated;
  throw error;
};

const check = (operator, isMet) => (actual, expected, message) => {
  if (!isMet(actual, expected)) fail({ actual, expected, message, operator });
};

const ok = (...args) => {
  const [value, message] = args;
  if (value) return;
  if (args.length === 0)
    fail({
      actual: value,
      expected: true,
      message: 'No value argument passed to `assert.ok()`',
      operator: '==',
      generated: true,
    });
  const generated = message == null;
  fail({
    actual: value,
    expected: true,
    message: generated ? 'The expression evaluated to a falsy value' : message,
    operator: '==',
    generated,
  });
};

const assert = (...args) => ok(...args);

const matchesError = (error, expected, message, operator) => {
  if (typeof expected === 'function') return matchesFunction(error, expected, message, operator);
  if (expected instanceof RegExp) {
    if (expected.test(String(error))) return;
    const text = `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(String(error))}\n`;
    return fail({ actual: error, expected, message: message ?? text, operator, generated: message === undefined });
  }
  const keys = Object.keys(expected);
  if (expected instanceof Error) keys.push('name', 'message');
  for (const key of keys) {
    if (
      (typeof error[key] === 'string' && expected[key] instanceof RegExp && expected[key].test(error[key])) ||
      (key in error && isDeepEqual(error[key], expected[key], true))
    )
      continue;
    const pick = (from) => Object.fromEntries(keys.filter((each) => each in from).map((each) => [each, from[each]]));
    const text = message ?? describeDifference(pick(error), pick(expected), 'deepStrictEqual');
    fail({ actual: error, expected, message: text, operator, generated: message === undefined });
  }
};

const matchesFunction = (error, expected, message, operator) => {
  if (expected.prototype !== undefined && error instanceof expected) return;
  if (Object.prototype.isPrototypeOf.call(Error, expected)) {
    const kind = error?.constructor?.name ?? inspect(error);
    const text2 = `The error is expected to be an instance of "${expected.name}". Received "${kind}"\n\nError message:\n\n${error?.message}`;
    fail({ actual: error, expected, message: message ?? text2, operator, generated: message === undefined });
  }
  if (expected.call({}, error) === true) return;
  const text = `The ${expected.name ? `"${expected.name}" ` : ''}validation function is expected to return "true". Received ${inspect(false)}\n\nCaught error:\n\n${error}`;
  fail({ actual: error, expected, message: message ?? text, operator, generated: message === undefined });
};

const expectThrown = (outcome, expected, message, operator) => {
  const [wanted, text] = typeof expected === 'string' ? [undefined, expected] : [expected, message];
  if (!outcome.isThrown) {
    const what = operator === 'rejects' ? 'rejection' : 'exception';
    const named = wanted?.name ? ` (${wanted.name})` : '';
    const ending = text === undefined ? '.' : `: ${text}`;
    fail({ actual: undefined, expected: wanted, operator, message: `Missing expected ${what}${named}${ending}` });
  }
  if (wanted !== undefined) matchesError(outcome.error, wanted, text, operator);
};

const expectNotThrown = (outcome, expected, message, operator) => {
  if (!outcome.isThrown) return;
  const text = typeof expected === 'string' ? expected : message;
  if (typeof expected === 'function' && !(outcome.error instanceof expected)) throw outcome.error;
  const what = operator === 'doesNotReject' ? 'rejection' : 'exception';
  const ending = text === undefined ? '.' : `: ${text}`;
  const full = `Got unwanted ${what}${ending}\nActual message: "${outcome.error?.message}"`;
  fail({ actual: outcome.error, expected, operator, message: full });
};

const attempt = (work) => {
  checkFunction(work, 'fn');
  try {
    work();
    return { isThrown: false };
  } catch (error) {
    return { isThrown: true, error };
  }
};

const attemptAsync = async (work) => {
  try {
    const promise = typeof work === 'function' ? work() : work;
    if (typeof promise?.then !== 'function')
      throw invalidArgType('promiseFn', 'of type function or an instance of Promise', work);
    await promise;
    return { isThrown: false };
  } catch (error) {
    return { isThrown: true, error };
  }
};

const checkMatch = (operator, wanted) => (text, pattern, message) => {
  if (!(pattern instanceof RegExp)) throw invalidArgType('regexp', 'an instance of RegExp', pattern);
  if (typeof text === 'string' && pattern.test(text) === wanted) return;
  const start =
    typeof text === 'string'
      ? `The input ${wanted ? 'did not match' : 'was expected to not match'} the regular expression `
      : 'The "string" argument must be of type string. Received type ';
  const body =
    typeof text === 'string'
      ? `${start}${inspect(pattern)}. Input:\n\n${inspect(text)}\n`
      : `${start}${typeof text} (${inspect(text)})`;
  fail({ actual: text, expected: pattern, message: message ?? body, operator, generated: message === undefined });
};

const looselyEqual = (a, b) => a == b || (Number.isNaN(a) && Number.isNaN(b));

Object.assign(assert, {
  AssertionError,
  ok,
  equal: check('==', looselyEqual),
  notEqual: check('!=', (a, b) => !looselyEqual(a, b)),
  strictEqual: check('strictEqual', Object.is),
  notStrictEqual: check('notStrictEqual', (a, b) => !Object.is(a, b)),
  deepEqual: check('deepEqual', (a, b) => isDeepEqual(a, b, false)),
  notDeepEqual: check('notDeepEqual', (a, b) => !isDeepEqual(a, b, false)),
  deepStrictEqual: check('deepStrictEqual', (a, b) => isDeepEqual(a, b, true)),
  notDeepStrictEqual: check('notDeepStrictEqual', (a, b) => !isDeepEqual(a, b, true)),
  match: checkMatch('match', true),
  doesNotMatch: checkMatch('doesNotMatch', false),
  fail: (message) => {
    if (message instanceof Error) throw message;
    const error = new AssertionError({ message: message ?? 'Failed', operator: 'fail' });
    error.generatedMessage = message === undefined;
    throw error;
  },
  ifError: (value) => {
    if (value == null) return;
    const text = `ifError got unwanted exception: ${value instanceof Error ? value.message : inspect(value)}`;
    fail({ actual: value, expected: null, operator: 'ifError', message: text });
  },
  throws: (work, expected, message) => expectThrown(attempt(work), expected, message, 'throws'),
  doesNotThrow: (work, expected, message) => expectNotThrown(attempt(work), expected, message, 'doesNotThrow'),
  rejects: async (work, expected, message) => expectThrown(await attemptAsync(work), expected, message, 'rejects'),
  doesNotReject: async (work, expected, message) =>
    expectNotThrown(await attemptAsync(work), expected, message, 'doesNotReject'),
});

const strict = Object.assign((...args) => ok(...args), assert, {
  equal: assert.strictEqual,
  notEqual: assert.notStrictEqual,
  deepEqual: assert.deepStrictEqual,
  notDeepEqual: assert.notDeepStrictEqual,
});

strict.strict = strict;
assert.strict = strict;
module.exports = assert;
