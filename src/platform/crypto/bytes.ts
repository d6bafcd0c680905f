// Compares bytes that are not secret. Not constant-time.

/** Compares in JavaScript: for the few bytes of a header or nonce, a native call takes longer. */
export const beginsWith = (bytes: Uint8Array, start: Uint8Array): boolean => {
  for (let index = 0; index < start.length; index += 1) if (bytes[index] !== start[index]) return false;
  return true;
};
