// Makes an application/x-www-form-urlencoded body of nested values, in brackets.
// request: {"args":{"amount":1250,"currency":"eur","card":{"number":"4242424242424242","exp":{"month":12,"year":2030}},"items":["a b","c&d","é=ü"],"empty":"","none":null,"flag":true}}
const flatten = (value, prefix) => {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap((each, i) => flatten(each, `${prefix}[${i}]`));
  if (typeof value === 'object') {
    return Object.entries(value).flatMap(([key, each]) => flatten(each, prefix ? `${prefix}[${key}]` : key));
  }
  return [[prefix, String(value)]];
};

module.exports = (req) => {
  const pairs = flatten(req.args, '');
  const byHand = pairs
    .map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v).replace(/%20/g, '+')}`)
    .join('&');
  const params = new URLSearchParams(pairs);
  return {
    raw: {
      byHand,
      byParams: params.toString(),
      length: Buffer.byteLength(byHand),
      back: [...new URLSearchParams(byHand)],
    },
  };
};
