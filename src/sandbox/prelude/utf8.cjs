// UTF-8 to text and back, with the replacement characters that the standard has for broken bytes.
'use strict';

const { fromCharCode } = String;
const { apply } = Reflect;

const asciiEnd = (bytes, start, end) => {
  let i = start;
  while (i < end && bytes[i] < 128) i++;
  return i;
};

const fromUnits = (units) => apply(fromCharCode, undefined, units);

const asciiText = (bytes, start, end) => {
  let text = '';
  for (let i = start; i < end; i += 4096) text += fromUnits(bytes.subarray(i, Math.min(i + 4096, end)));
  return text;
};

const sequenceOf = (byte) => {
  if (byte >= 194 && byte <= 223) return { length: 1, low: 128, high: 191, bits: byte & 31 };
  if (byte >= 224 && byte <= 239)
    return { length: 2, low: byte === 224 ? 160 : 128, high: byte === 237 ? 159 : 191, bits: byte & 15 };
  if (byte >= 240 && byte <= 244)
    return { length: 3, low: byte === 240 ? 144 : 128, high: byte === 244 ? 143 : 191, bits: byte & 7 };
};

const decodeUtf8 = (bytes, start, end, onMalformed, isPartial = false) => {
  let i = asciiEnd(bytes, start, end);
  let text = asciiText(bytes, start, i);
  let units = [];
  while (i < end) {
    const byte = bytes[i];
    if (byte < 128) {
      units.push(byte);
      i++;
    } else {
      const read = readSequence(bytes, i, end);
      if (read.isCut && isPartial) break;
      if (read.point === undefined) {
        onMalformed?.();
        units.push(65_533);
      } else if (read.point > 65_535) units.push(55_232 + (read.point >> 10), 56_320 + (read.point & 1023));
      else units.push(read.point);
      i = read.next;
    }
    if (units.length >= 4096) {
      text += fromUnits(units);
      units = [];
    }
  }
  return { text: text + fromUnits(units), used: i };
};

const readSequence = (bytes, at, end) => {
  const sequence = sequenceOf(bytes[at]);
  if (sequence === undefined) return { next: at + 1 };
  let { bits: point, low, high } = sequence;
  for (let k = 1; k <= sequence.length; k++) {
    const next = bytes[at + k];
    if (at + k >= end) return { next: at + k, isCut: true };
    if (next < low || next > high) return { next: at + k };
    point = (point << 6) | (next & 63);
    low = 128;
    high = 191;
  }
  return { next: at + sequence.length + 1, point };
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

module.exports = { asciiText, decodeUtf8, encodeUtf8, lengthOfUtf8 };
