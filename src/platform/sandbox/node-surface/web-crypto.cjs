// The global `crypto`: random values and UUIDs. There is no `subtle`.
'use strict';

const { DOMException } = require('./dom-exception.cjs');

const BYTES_MAX = 65_536;

exports.crypto = {
  getRandomValues(array) {
    if (!ArrayBuffer.isView(array) || array instanceof DataView || /Float/.test(array.constructor.name))
      throw new DOMException('The data argument must be an integer-type TypedArray', 'TypeMismatchError');
    if (array.byteLength > BYTES_MAX)
      throw new DOMException(`The requested length exceeds ${BYTES_MAX} bytes`, 'QuotaExceededError');
    const bytes = require('./crypto-bridge.cjs').call('randomBytes', array.byteLength);
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(bytes);
    return array;
  },
  randomUUID: () => require('./crypto-bridge.cjs').call('randomUUID'),
};
