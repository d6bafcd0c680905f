// Makes ids with crypto alone, and looks only at their shape.
// request: {"args":{}}
const crypto = require('crypto');

module.exports = () => {
  const ids = Array.from({ length: 20 }, () => crypto.randomUUID());
  const numbers = Array.from({ length: 50 }, () => crypto.randomInt(10));
  const filled = globalThis.crypto.getRandomValues(new Uint32Array(8));
  return {
    raw: {
      shape: ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)),
      different: new Set(ids).size,
      inRange: numbers.every((n) => n >= 0 && n < 10),
      bytes: crypto.randomBytes(24).toString('hex').length,
      filled: [filled.length, filled.some((n) => n > 0)],
      sync: crypto.randomFillSync(Buffer.alloc(10)).length,
    },
  };
};
