// Cuts, compares and searches buffers.
// request: {"args":{"text":"one,two,,three,two"}}
module.exports = ({ args: { text } }) => {
  const b = Buffer.from(text);
  const parts = [];
  let from = 0;
  for (let at = b.indexOf(','); at !== -1; at = b.indexOf(',', from)) {
    parts.push(b.subarray(from, at).toString());
    from = at + 1;
  }
  parts.push(b.slice(from).toString());
  const copy = Buffer.alloc(6, '.');
  const copied = b.copy(copy, 1, 4, 7);
  return {
    raw: {
      parts,
      last: b.lastIndexOf('two'),
      includes: [b.includes('three'), b.includes(0x2c), b.includes(Buffer.from('four'))],
      compare: [Buffer.compare(Buffer.from('a'), Buffer.from('b')), Buffer.from('abc').equals(Buffer.from('abc'))],
      copied: [copied, copy.toString()],
      concat: Buffer.concat([Buffer.from('ab'), new Uint8Array([99]), Buffer.from('def')], 5).toString(),
      fill: Buffer.alloc(7, 'abc').toString(),
      entries: [...Buffer.from('hi').entries()],
      shared: (() => {
        const whole = Buffer.from('hello');
        whole.subarray(1, 3).fill('X');
        return whole.toString();
      })(),
      xor: Buffer.from(b.map((byte, i) => byte ^ i)).toString('hex'),
      isBuffer: [Buffer.isBuffer(b), Buffer.isBuffer(new Uint8Array(1)), b instanceof Uint8Array],
    },
  };
};
