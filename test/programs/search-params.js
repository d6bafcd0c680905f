// Works on query strings as the web does.
// request: {"args":{"query":"?a=1&b=2&a=3&empty=&plus=a+b&pct=%C3%BC%zz&=nokey&novalue"}}
module.exports = ({ args: { query } }) => {
  const params = new URLSearchParams(query);
  const before = [...params];
  params.set('a', 'only');
  params.append('emoji', '🙂 &=+');
  params.delete('b');
  const each = [];
  params.forEach((value, key) => each.push(`${key}:${value}`));
  const sorted = new URLSearchParams(params);
  sorted.sort();
  return {
    raw: {
      before,
      all: new URLSearchParams(query).getAll('a'),
      missing: [params.get('nothing'), params.has('novalue'), params.has('b')],
      text: params.toString(),
      each,
      sorted: String(sorted),
      keys: [...params.keys()],
      values: [...params.values()],
      fromObject: new URLSearchParams({ x: 1, y: [1, 2], z: null }).toString(),
      fromPairs: new URLSearchParams([
        ['a', 'b'],
        ['a', 'c'],
      ]).toString(),
      fromMap: new URLSearchParams(new Map([['m', '1']])).toString(),
      size: params.size,
    },
  };
};
