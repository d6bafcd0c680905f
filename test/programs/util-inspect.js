// Shows values as console does.
// request: {"args":{"deep":{"a":{"b":{"c":{"d":1}}}},"list":[1,"two",null,true]}}
const util = require('util');

class Point {
  constructor(x, y) {
    this.x = x;
    this.y = y;
  }
}
class Secret {
  [util.inspect.custom](depth, options) {
    return `Secret<${depth}>`;
  }
}

module.exports = ({ args }) => {
  const cycle = { name: 'loop' };
  cycle.self = cycle;
  const values = [
    args,
    'it\'s "quoted"',
    [undefined, null, NaN, -0, 1n, Symbol('s')],
    new Map([
      ['a', { b: 1 }],
      [{ k: 1 }, [1]],
    ]),
    new Set(['x', 2]),
    new Date(0),
    /a+/gi,
    new Point(1, -2),
    new Secret(),
    { f() {}, g: () => {}, h: class A extends Point {}, async i() {} },
    cycle,
    [1, , 3],
    Object.create(null, { hidden: { value: 1 }, shown: { value: 2, enumerable: true } }),
    {
      get a() {
        return 1;
      },
      set b(v) {},
      get c() {
        return 1;
      },
      set c(v) {},
    },
    new Uint8Array([1, 2, 3]),
    Buffer.from('hi'),
    [new Array(120).fill(7)],
    { 'a-b': 1, 3: 4 },
    new WeakMap(),
    [['a'.repeat(80)], 'line\nbreak'],
    Object.assign(() => {}, { extra: 1 }),
    new (class extends Map {})([[1, 2]]),
    [new Number(3), new String('abc'), new Boolean(false)],
    (function () {
      return arguments;
    })(1, 2),
  ];
  return {
    raw: {
      shown: values.map((value) => util.inspect(value)),
      deep: util.inspect(args, { depth: 0 }),
      endless: util.inspect(args, { depth: null, compact: false }),
      colors: util.inspect({ a: 1, b: 'x', c: [null] }, { colors: true }),
      wide: util.inspect(
        Array.from({ length: 30 }, (_, i) => i * 37),
        { breakLength: 60 },
      ),
      sorted: util.inspect({ b: 1, a: 2 }, { sorted: true }),
      cut: util.inspect('x'.repeat(50), { maxStringLength: 10 }),
      hidden: util.inspect({ a: [] }, { showHidden: true }),
    },
  };
};
