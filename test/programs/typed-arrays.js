// Checksums and views over one buffer.
// request: {"args":{"text":"123456789"}}
const table = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});
const crc32 = (bytes) =>
  (bytes.reduce((crc, byte) => table[(crc ^ byte) & 0xff] ^ (crc >>> 8), 0xffffffff) ^ 0xffffffff) >>> 0;

module.exports = ({ args: { text } }) => {
  const buffer = new ArrayBuffer(16);
  const view = new DataView(buffer);
  view.setUint16(0, 0xcafe);
  view.setFloat64(8, 1 / 3, true);
  view.setInt32(2, -2);
  const floats = new Float32Array([1.1, 2.5, -0]);
  return {
    raw: {
      crc: crc32(Buffer.from(text)).toString(16),
      adler: [...Buffer.from(text)].reduce(([a, b], byte) => [(a + byte) % 65521, (b + a + byte) % 65521], [1, 0]),
      bytes: [...new Uint8Array(buffer)],
      back: [view.getUint16(0).toString(16), view.getInt32(2), view.getFloat64(8, true)],
      clamped: [...Uint8ClampedArray.of(-5, 300, 1.5, 2.5)],
      wrapped: [...Int8Array.of(200, -200, 127)],
      floats: Array.from(floats),
      sorted: [...Float64Array.of(3, -1, NaN, 0).sort()].map(String),
      sub: [...new Uint16Array(buffer).subarray(0, 2)],
      set: (() => {
        const a = new Uint8Array(4);
        a.set([1, 2], 1);
        return [...a.copyWithin(0, 1)];
      })(),
      bits: [(5).toString(2), 0xff >>> 3, -1 >>> 0, Math.clz32(1), Math.imul(0xffffffff, 5)],
    },
  };
};
