// Builds an XML payment message with escaped text, by template.
// request: {"args":{"merchant":"M & M <Söhne> \"GmbH\"","order":"4711","lines":[{"sku":"A'1","price":12.5},{"sku":"B2","price":0.1}]}}
const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' };
const escape = (text) => String(text).replace(/[&<>"']/g, (char) => entities[char]);
const xml = (strings, ...values) =>
  strings.reduce(
    (all, text, i) =>
      all +
      text +
      (i < values.length
        ? []
            .concat(values[i])
            .map((v) => (v && v.raw) || escape(v))
            .join('')
        : ''),
    '',
  );
const raw = (text) => ({ raw: text });

module.exports = async ({ args }) => {
  const total = args.lines.reduce((sum, line) => sum + line.price, 0);
  const body = xml`<?xml version="1.0"?>
<order id="${args.order}" merchant="${args.merchant}">
${args.lines.map((line) => raw(xml`  <line sku="${line.sku}">${line.price.toFixed(2)}</line>\n`))}  <total>${total.toFixed(2)}</total>
</order>`;
  return { raw: { body, bytes: Buffer.from(body).length, lines: body.split('\n').length } };
};
