// Randomness from the host's own source, in Node's shapes and with Node's checks.
'use strict';

const host = require('./host.cjs');
const { Buffer } = require('./buffer.cjs');
const { fromBase64 } = require('./bytes.cjs');
const { invalidArgType, outOfRange } = require('./errors.cjs');
const { nextTick } = require('./ticks.cjs');

const SIZE_MAX = 2 ** 31 - 1;

const checkSize = (size, name = 'size') => {
  if (typeof size !== 'number') throw invalidArgType(name, 'of type number', size);
  if (Number.isNaN(size) || size < 0 || size > SIZE_MAX) throw outOfRange(name, `>= 0 && <= ${SIZE_MAX}`, size);
};

const randomBytes = (size, callback) => {
  checkSize(size);
  const bytes = fromBase64(host.crypto('random_bytes', { size }));
  if (callback === undefined) return bytes;
  nextTick(callback, [null, bytes]);
};

const randomFillSync = (target, offset = 0, size = undefined) => {
  const view = Buffer.from(target.buffer ?? target, target.byteOffset ?? 0, target.byteLength);
  const length = size ?? view.length - offset;
  randomBytes(length).copy(view, offset);
  return target;
};

const randomFill = (target, ...rest) => {
  const callback = rest.pop();
  randomFillSync(target, ...rest);
  nextTick(callback, [null, target]);
};

const RANGE_MAX = 2 ** 48 - 1;

const randomInt = (...args) => {
  const callback = typeof args.at(-1) === 'function' ? args.pop() : undefined;
  const [min, max] = args.length < 2 ? [0, args[0]] : args;
  if (!Number.isSafeInteger(min)) throw invalidArgType('min', 'a safe integer', min);
  if (!Number.isSafeInteger(max)) throw invalidArgType('max', 'a safe integer', max);
  if (max <= min) throw outOfRange('max', `greater than the value of "min" (${min})`, max);
  if (max - min > RANGE_MAX) throw outOfRange(args.length < 2 ? 'max' : 'max - min', `<= ${RANGE_MAX}`, max - min);
  const picked = host.crypto('random_int', { min, max });
  if (callback === undefined) return picked;
  nextTick(callback, [undefined, picked]);
};

const randomUUID = () => host.crypto('random_uuid', {});
module.exports = { randomBytes, randomFillSync, randomFill, randomInt, randomUUID };
