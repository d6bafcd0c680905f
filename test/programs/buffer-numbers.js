// Reads and writes numbers of every width.
// request: {"args":{"int":-123456,"big":"18446744073709551615","float":3.141592653589793}}
module.exports = ({ args }) => {
  const b = Buffer.alloc(64);
  let at = 0;
  at = b.writeInt8(-5, at);
  at = b.writeUInt8(250, at);
  at = b.writeInt16BE(-1234, at);
  at = b.writeUInt16LE(54321, at);
  at = b.writeInt32BE(args.int, at);
  at = b.writeUInt32LE(4000000000, at);
  at = b.writeIntBE(-140737488355328, at, 6);
  at = b.writeUIntLE(0xabcdef, at, 3);
  at = b.writeBigUInt64BE(BigInt(args.big), at);
  at = b.writeBigInt64LE(-2n, at);
  at = b.writeFloatBE(args.float, at);
  at = b.writeDoubleLE(args.float, at);
  const errors = [];
  for (const bad of [() => b.writeUInt8(256, 0), () => b.readInt32BE(62), () => b.writeInt16LE(1.5e9, 0)]) {
    try {
      errors.push(bad());
    } catch (error) {
      errors.push(error.name);
    }
  }
  return {
    raw: {
      at,
      hex: b.toString('hex'),
      back: [
        b.readInt8(0),
        b.readUInt8(1),
        b.readInt16BE(2),
        b.readUInt16LE(4),
        b.readInt32BE(6),
        b.readUInt32LE(10),
        b.readIntBE(14, 6),
        b.readUIntLE(20, 3),
      ],
      bigs: [String(b.readBigUInt64BE(23)), String(b.readBigInt64LE(31))],
      floats: [b.readFloatBE(39), b.readDoubleLE(43)],
      swapped: Buffer.from('0102030405060708', 'hex').swap32().toString('hex'),
      errors,
    },
  };
};
