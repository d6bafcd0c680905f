// Picks values out of a document by paths.
// request: {"args":{"doc":{"store":{"book":[{"title":"A","price":8.95},{"title":"B","price":22.99},{"title":"C","price":12}],"bicycle":{"price":19.95}}}}}
const jp = require('jsonpath');

module.exports = ({ args: { doc } }) => ({
  raw: {
    titles: jp.query(doc, '$.store.book[*].title'),
    prices: jp.query(doc, '$..price'),
    cheap: jp.query(doc, '$..book[?(@.price<10)].title'),
    last: jp.query(doc, '$..book[(@.length-1)]'),
    slice: jp.query(doc, '$..book[0:2].title'),
    value: jp.value(doc, '$.store.bicycle.price'),
    paths: jp.paths(doc, '$..title'),
    nodes: jp.nodes(doc, '$.store.book[1]'),
    changed: jp.apply(structuredClone(doc), '$..price', (price) => price * 2),
    parsed: jp.parse('$.a[0]'),
    text: jp.stringify(['$', 'a', 0, 'b c']),
  },
});
