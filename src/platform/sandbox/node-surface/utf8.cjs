// UTF-8 to text and back, by the Encoding standard: broken bytes become U+FFFD (https://encoding.spec.whatwg.org/#utf-8-decoder).
'use strict';

const { fromCharCode } = String;
const { apply } = Reflect;

/** Few enough to be arguments of one call. */
const UNITS_MAX = 4096;
const REPLACEMENT = 0xff_fd;

const fromUnits = (units) => apply(fromCharCode, undefined, units);

const decodeUtf8 = (bytes, start, end) => {
  let text = '';
  let i = start;
  while (i < end && bytes[i] < 0x80) i++;
  for (let at = start; at < i; at += UNITS_MAX) text += fromUnits(bytes.subarray(at, Math.min(at + UNITS_MAX, i)));
  let units = [];
  let point = 0;
  let left = 0;
  let low = 0x80;
  let high = 0xbf;
  for (; i < end; i++) {
    const byte = bytes[i];
    if (left > 0 && byte >= low && byte <= high) {
      point = (point << 6) | (byte & 0x3f);
      left -= 1;
      low = 0x80;
      high = 0xbf;
      if (left === 0 && point <= 0xff_ff) units.push(point);
      else if (left === 0) units.push(0xd7_c0 + (point >> 10), 0xdc_00 + (point & 0x3_ff));
      continue;
    }
    if (left > 0) units.push(REPLACEMENT);
    left = 0;
    if (byte < 0x80) units.push(byte);
    else if (byte < 0xc2 || byte > 0xf4) units.push(REPLACEMENT);
    else {
      left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
      point = byte & (0x3f >> left);
      low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
      high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    }
    if (units.length >= UNITS_MAX) {
      text += fromUnits(units);
      units = [];
    }
  }
  if (left > 0) units.push(REPLACEMENT);
  return text + fromUnits(units);
};

const isHigh = (unit) => unit >= 55_296 && unit <= 56_319;
const isLow = (unit) => unit >= 56_320 && unit <= 57_343;

const lengthOfUtf8 = (text) => {
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 128) length += 1;
    else if (unit < 2048) length += 2;
    else if (isHigh(unit) && isLow(text.charCodeAt(i + 1))) {
      length += 4;
      i++;
    } else length += 3;
  }
  return length;
};

const encodeUtf8 = (text, bytes) => {
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    let point = text.charCodeAt(i);
    if (point < 128) {
      bytes[at++] = point;
      continue;
    }
    if (isHigh(point) && isLow(text.charCodeAt(i + 1))) point = text.codePointAt(i++);
    else if (isHigh(point) || isLow(point)) point = 65_533;
    if (point < 2048) bytes[at++] = 192 | (point >> 6);
    else {
      if (point < 65_536) bytes[at++] = 224 | (point >> 12);
      else {
        bytes[at++] = 240 | (point >> 18);
        bytes[at++] = 128 | ((point >> 12) & 63);
      }
      bytes[at++] = 128 | ((point >> 6) & 63);
    }
    bytes[at++] = 128 | (point & 63);
  }
  return bytes;
};

module.exports = { decodeUtf8, encodeUtf8, lengthOfUtf8 };
