// Buffer's methods for whole and floating numbers, with Node's checks and Node's errors.
'use strict';

const { invalidArgType, nodeError, outOfRange } = require('./errors.cjs');

const viewOf = (buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);

const boundsError = (value, last, name = 'offset') => {
  if (Math.floor(value) !== value) return outOfRange(name, 'an integer', value);
  return last < 0
    ? nodeError(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', 'Attempt to access memory outside buffer bounds')
    : outOfRange(name, `>= ${name === 'offset' ? 0 : 1} and <= ${last}`, value);
};

const checkOffset = (buffer, offset, size) => {
  if (typeof offset !== 'number') throw invalidArgType('offset', 'of type number', offset);
  const last = buffer.length - size;
  if (!(Number.isInteger(offset) && offset >= 0 && offset <= last)) throw boundsError(offset, last);
};

const checkSize = (size) => {
  if (typeof size !== 'number') throw invalidArgType('byteLength', 'of type number', size);
  if (!(Number.isInteger(size) && size >= 1 && size <= 6)) throw boundsError(size, 6, 'byteLength');
};

const rangeText = (min, max, size) => {
  const suffix = typeof min === 'bigint' ? 'n' : '';
  if (size <= 4) return `>= ${min} and <= ${max}`;
  const bits = size * 8;
  return Number(min) === 0
    ? `>= 0${suffix} and < 2${suffix} ** ${bits}${suffix}`
    : `>= -(2${suffix} ** ${bits - 1}${suffix}) and < 2${suffix} ** ${bits - 1}${suffix}`;
};

const checkRange = (value, { min, max, size }) => {
  if (value > max || value < min) throw outOfRange('value', rangeText(min, max, size), value);
};

const define = (proto, name, value) => {
  Object.defineProperty(proto, name, { value, writable: true, enumerable: false, configurable: true });
};

const defineBoth = (proto, name, value) => {
  define(proto, name, value);
  if (name.includes('UInt')) define(proto, name.replace('UInt', 'Uint'), value);
};

const addFixed = (proto, kind, { size, min, max }) => {
  const accessor = { Float: 'Float32', Double: 'Float64' }[kind] ?? kind.replace('UInt', 'Uint');
  const setter = `set${accessor}`;
  const getter = `get${accessor}`;
  for (const order of size === 1 ? [''] : ['LE', 'BE']) {
    const isLittle = order === 'LE';
    defineBoth(proto, `read${kind}${order}`, function (offset = 0) {
      checkOffset(this, offset, size);
      return viewOf(this)[getter](offset, isLittle);
    });
    defineBoth(proto, `write${kind}${order}`, function (value, offset = 0) {
      const number = typeof min === 'bigint' ? value : +value;
      if (typeof offset !== 'number') throw invalidArgType('offset', 'of type number', offset);
      if (min !== undefined) checkRange(number, { min, max, size });
      checkOffset(this, offset, size);
      viewOf(this)[setter](offset, number, isLittle);
      return offset + size;
    });
  }
};

const addVariable = (proto, isSigned) => {
  const kind = isSigned ? 'Int' : 'UInt';
  for (const order of ['LE', 'BE']) {
    const at = (offset, size, i) => (order === 'LE' ? offset + i : offset + size - 1 - i);
    defineBoth(proto, `read${kind}${order}`, function (offset, size) {
      if (offset === undefined) throw invalidArgType('offset', 'of type number', offset);
      checkSize(size);
      checkOffset(this, offset, size);
      let value = 0;
      for (let i = size - 1; i >= 0; i--) value = value * 256 + this[at(offset, size, i)];
      return isSigned && value >= 2 ** (size * 8 - 1) ? value - 2 ** (size * 8) : value;
    });
    defineBoth(proto, `write${kind}${order}`, function (value, offset, size) {
      checkSize(size);
      const bits = size * 8;
      const [min, max] = isSigned ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
      const number = +value;
      if (typeof offset !== 'number') throw invalidArgType('offset', 'of type number', offset);
      checkRange(number, { min, max, size });
      checkOffset(this, offset, size);
      let rest = Math.trunc(number) || 0;
      if (rest < 0) rest += 2 ** bits;
      for (let i = 0; i < size; i++) {
        this[at(offset, size, i)] = rest % 256;
        rest = Math.floor(rest / 256);
      }
      return offset + size;
    });
  }
};

exports.addNumbers = (proto) => {
  for (const bits of [8, 16, 32]) {
    addFixed(proto, `UInt${bits}`, { size: bits / 8, min: 0, max: 2 ** bits - 1 });
    addFixed(proto, `Int${bits}`, { size: bits / 8, min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 });
  }
  addFixed(proto, 'BigUInt64', { size: 8, min: 0n, max: 2n ** 64n - 1n });
  addFixed(proto, 'BigInt64', { size: 8, min: -(2n ** 63n), max: 2n ** 63n - 1n });
  addFixed(proto, 'Float', { size: 4 });
  addFixed(proto, 'Double', { size: 8 });
  addVariable(proto, false);
  addVariable(proto, true);
};
