// Reads and writes the bitmap and fields of a card message.
// request: {"args":{"fields":{"2":"4242424242424242","3":"000000","4":"000000001250","11":"123456","41":"TERM0001","70":"301"}}}
const LAYOUT = { 2: 'LL', 3: 6, 4: 12, 11: 6, 41: 8, 70: 3 };

const bitmapOf = (numbers) => {
  const bits = numbers.some((n) => n > 64) ? new Uint8Array(16) : new Uint8Array(8);
  if (bits.length === 16) bits[0] |= 0x80;
  for (const n of numbers) bits[(n - 1) >> 3] |= 0x80 >> ((n - 1) & 7);
  return Buffer.from(bits).toString('hex').toUpperCase();
};

const pack = (type, fields) => {
  const numbers = Object.keys(fields)
    .map(Number)
    .sort((a, b) => a - b);
  const body = numbers.map((n) => {
    const kind = LAYOUT[n];
    return kind === 'LL'
      ? String(fields[n].length).padStart(2, '0') + fields[n]
      : fields[n].padEnd(kind, ' ').slice(0, kind);
  });
  return type + bitmapOf(numbers) + body.join('');
};

const unpack = (message) => {
  const wide = parseInt(message[4], 16) >= 8;
  const bits = Buffer.from(message.slice(4, wide ? 36 : 20), 'hex');
  let at = wide ? 36 : 20;
  const fields = {};
  for (let n = 2; n <= bits.length * 8; n++) {
    if (!(bits[(n - 1) >> 3] & (0x80 >> ((n - 1) & 7)))) continue;
    let size = LAYOUT[n];
    if (size === 'LL') {
      size = Number(message.substr(at, 2));
      at += 2;
    }
    fields[n] = message.substr(at, size);
    at += size;
  }
  return { type: message.slice(0, 4), fields };
};

module.exports = ({ args: { fields } }) => {
  const message = pack('0800', fields);
  return { raw: { message, back: unpack(message) } };
};
