// Writes JSON in one form only, for a signature over it.
// request: {"args":{"b":[3,{"z":null,"a":true}],"a":"é\u2028\"","10":1,"9":2,"n":1e21,"m":1e-7,"zero":-0.0,"nested":{"y":{"x":[]}}}}
const { createHash } = require('crypto');

const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    return `{${Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
      .join(',')}}`;
  }
  return JSON.stringify(value);
};

module.exports = ({ args }) => {
  const text = canonical(args);
  return {
    raw: {
      text,
      digest: createHash('sha256').update(text).digest('hex'),
      stringified: JSON.stringify(args, null, 2),
      replaced: JSON.stringify(args, (key, value) => (typeof value === 'number' ? String(value) : value)),
      picked: JSON.stringify(args, ['a', 'nested', 'y']),
      revived: JSON.parse(text, function (key, value) {
        return key === 'z' ? 'was null' : value;
      }),
      lone: JSON.stringify('\ud800 \udc00'),
    },
  };
};
