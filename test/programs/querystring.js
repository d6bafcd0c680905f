// Reads and writes query strings in Node's old way.
// request: {"args":{"query":"a=1&b=2&a=3&c=%C3%BC+x&d&=e&f=%E4"}}
const qs = require('querystring');

module.exports = ({ args: { query } }) => {
  const parsed = qs.parse(query);
  return {
    raw: {
      parsed: { ...parsed },
      proto: Object.getPrototypeOf(parsed) === null,
      text: qs.stringify({ a: ['x', 'y'], b: true, n: 1.5, u: undefined, nul: null, o: {}, s: 'ü &=', e: '' }),
      separators: [qs.stringify({ a: 1, b: 2 }, ';', ':'), { ...qs.parse('a:1;b:2', ';', ':') }],
      limited: { ...qs.parse('a=1&b=2&c=3', null, null, { maxKeys: 2 }) },
      escape: [qs.escape("a b'(ü)*!"), qs.unescape('a%20b%zz+')],
    },
  };
};
