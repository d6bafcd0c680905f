// Checks that an icon is a data URL of a whole PNG or JPEG image, by the structure of its bytes.
import { crc32 } from 'node:zlib';

/** Characters of the whole URL. */
export const ICON_LENGTH_MAX = 50_000;

export const ICON_PATTERN = /^data:image\/(png|jpe?g);base64,([A-Za-z0-9+/]+={0,2})$/;

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Length, name and checksum of a chunk. */
const PNG_CHUNK_FRAME_BYTES = 12;
const PNG_HEADER_BYTES = 13;

/** A header first, pixels after it, nothing after the end, and a valid checksum for each chunk. */
const isPng = (bytes: Buffer): boolean => {
  if (!bytes.subarray(0, PNG_SIGNATURE.length).equals(PNG_SIGNATURE)) return false;
  let hasPixels = false;
  for (let at = PNG_SIGNATURE.length; at + PNG_CHUNK_FRAME_BYTES <= bytes.length;) {
    const length = bytes.readUInt32BE(at);
    const end = at + PNG_CHUNK_FRAME_BYTES + length;
    if (end > bytes.length) return false;
    const name = bytes.toString('latin1', at + 4, at + 8);
    if (crc32(bytes.subarray(at + 4, end - 4)) !== bytes.readUInt32BE(end - 4)) return false;
    const isFirst = at === PNG_SIGNATURE.length;
    if (isFirst !== (name === 'IHDR') || (isFirst && length !== PNG_HEADER_BYTES)) return false;
    if (name === 'IDAT') hasPixels = true;
    if (name === 'IEND') return hasPixels && length === 0 && end === bytes.length;
    at = end;
  }
  return false;
};

const JPEG_START = 0xd8;
const JPEG_END = 0xd9;
const JPEG_SCAN = 0xda;
/** Markers without a length and content. */
const isBareMarker = (marker: number): boolean => marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7);

/** Finds the next marker after the pixels of a scan. Within them 0xFF is followed by 0 or by a restart marker. */
const endOfScan = (bytes: Buffer, from: number): number => {
  let at = bytes.indexOf(0xff, from);
  while (at !== -1 && (bytes[at + 1] === 0 || isBareMarker(bytes[at + 1] ?? 0))) at = bytes.indexOf(0xff, at + 2);
  return at;
};

/** Segments with their lengths, at least one scan of pixels, and nothing after the end. */
const isJpeg = (bytes: Buffer): boolean => {
  if (bytes[0] !== 0xff || bytes[1] !== JPEG_START) return false;
  let hasPixels = false;
  for (let at = 2; at + 1 < bytes.length;) {
    if (bytes[at] !== 0xff) return false;
    const marker = bytes[at + 1] as number;
    // 0xFF may be repeated before a marker.
    if (marker === 0xff) at += 1;
    else if (marker === JPEG_END) return hasPixels && at + 2 === bytes.length;
    else if (isBareMarker(marker)) at += 2;
    else {
      if (marker === 0 || marker === JPEG_START || at + 4 > bytes.length) return false;
      const length = bytes.readUInt16BE(at + 2);
      const end = at + 2 + length;
      if (length < 2 || end > bytes.length) return false;
      at = marker === JPEG_SCAN ? endOfScan(bytes, end) : end;
      if (marker === JPEG_SCAN) hasPixels = true;
      if (at === -1) return false;
    }
  }
  return false;
};

/** Whether a text is a data URL of a whole image of the type that it names. */
export const isIcon = (text: string): boolean => {
  if (text.length > ICON_LENGTH_MAX) return false;
  const [, type, base64 = ''] = ICON_PATTERN.exec(text) ?? [];
  if (type === undefined) return false;
  const bytes = Buffer.from(base64, 'base64');
  // Buffer skips invalid characters: the text is the same after a round trip only if it has none.
  if (bytes.toString('base64') !== base64) return false;
  return type === 'png' ? isPng(bytes) : isJpeg(bytes);
};
