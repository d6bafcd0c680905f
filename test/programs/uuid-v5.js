// Makes stable ids of names.
// request: {"args":{"names":["card-1","Zoë"],"namespace":"6ba7b811-9dad-11d1-80b4-00c04fd430c8"}}
const { v5, v3, v4, validate, version, parse, stringify, NIL } = require('uuid');

module.exports = ({ args: { names, namespace } }) => ({
  raw: {
    v5: names.map((name) => v5(name, namespace)),
    url: v5('https://example.com/', v5.URL),
    v3: names.map((name) => v3(name, v3.DNS)),
    fixed: v4({ random: new Uint8Array(16).fill(0xab) }),
    random: validate(v4()),
    checks: [validate(namespace), validate('nope'), version(namespace), NIL],
    bytes: Array.from(parse(namespace)),
    back: stringify(parse(namespace)),
  },
});
