// Views and base64 of bytes, in whatever they come. Copies nothing that it need not.
'use strict';

const { Buffer } = require('./buffer.cjs');

const viewBytes = (value) => {
  if (value instanceof Uint8Array || ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return Buffer.from(value);
};

exports.viewBytes = viewBytes;
exports.fromBase64 = (text) => Buffer.from(text, 'base64');
