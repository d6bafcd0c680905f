// Takes EMV data apart and puts it together.
// request: {"args":{"hex":"6F1A840E315041592E5359532E4444463031A5088801025F2D02656E9F0206000000001250"}}
function parse(bytes, at = 0, end = bytes.length) {
  const found = [];
  while (at < end) {
    let tag = bytes[at++];
    const constructed = (tag & 0x20) !== 0;
    if ((tag & 0x1f) === 0x1f) {
      do tag = (tag << 8) | bytes[at];
      while (bytes[at++] & 0x80);
    }
    let length = bytes[at++];
    if (length & 0x80) {
      const size = length & 0x7f;
      length = bytes.readUIntBE(at, size);
      at += size;
    }
    const name = tag.toString(16).toUpperCase();
    if (at + length > end) throw new RangeError(`${name} is longer than what is there`);
    found.push(
      constructed
        ? { name, children: parse(bytes, at, at + length) }
        : { name, value: bytes.toString('hex', at, at + length) },
    );
    at += length;
  }
  return found;
}

const build = (items) =>
  Buffer.concat(
    items.flatMap(({ name, value, children }) => {
      const body = children ? build(children) : Buffer.from(value, 'hex');
      return [Buffer.from(name, 'hex'), Buffer.from([body.length]), body];
    }),
  );

module.exports = ({ args: { hex } }) => {
  const bytes = Buffer.from(hex, 'hex');
  const items = parse(bytes);
  let cut;
  try {
    parse(bytes.subarray(0, 10));
  } catch (error) {
    cut = `${error.name}: ${error.message}`;
  }
  return {
    raw: {
      items,
      same: build(items).equals(bytes),
      cut,
      name: Buffer.from(items[0].children[0].value, 'hex').toString('ascii'),
    },
  };
};
