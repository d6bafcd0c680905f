// Copies values deeply, with cycles, and refuses what is no data.
// request: {"args":{"list":[1,{"a":"b"}]}}
module.exports = ({ args }) => {
  const source = {
    date: new Date(5),
    map: new Map([['k', new Set([1, 2])]]),
    re: /x/gi,
    bytes: new Uint8Array([1, 2]),
    big: 10n,
    args,
    error: new RangeError('e'),
    boxed: Object(3),
  };
  source.self = source;
  const copy = structuredClone(source);
  const refused = [];
  for (const bad of [() => {}, Symbol('s'), { f() {} }, new WeakMap()]) {
    try {
      structuredClone(bad);
    } catch (error) {
      refused.push([error.name, error.code, error instanceof DOMException]);
    }
  }
  class Point {
    constructor() {
      this.x = 1;
    }
  }
  return {
    raw: {
      cycle: copy.self === copy,
      separate: copy.args !== source.args && copy.args.list[1] !== source.args.list[1],
      values: [
        copy.date.getTime(),
        [...copy.map.get('k')],
        String(copy.re),
        [...copy.bytes],
        String(copy.big),
        copy.args,
      ],
      error: [copy.error instanceof RangeError, copy.error.message],
      boxed: typeof copy.boxed,
      point: [structuredClone(new Point()) instanceof Point, structuredClone(new Point())],
      holes: Object.keys(structuredClone([1, , 3])),
      refused,
    },
  };
};
