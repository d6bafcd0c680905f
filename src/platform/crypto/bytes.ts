// Bytes that are no secret: in no constant time.

/** Byte by byte: for as few as a header or a nonce has, a call out of the language takes longer. */
export const beginsWith = (bytes: Uint8Array, start: Uint8Array): boolean => {
  for (let index = 0; index < start.length; index += 1) if (bytes[index] !== start[index]) return false;
  return true;
};
