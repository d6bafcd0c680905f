// Fills a message from nested values, with filters, as notification code does.
// request: {"args":{"template":"Dear {{ customer.name | upper }}, {{amount|money}} was charged to card {{ card.number | mask }}. {{missing}}{{ items.1.name }}","data":{"customer":{"name":"Zoë"},"amount":1250,"card":{"number":"4242424242424242"},"items":[{"name":"a"},{"name":"b"}]}}}
const filters = {
  upper: (text) => String(text).toUpperCase(),
  money: (cents) => `€${(cents / 100).toFixed(2)}`,
  mask: (number) => number.slice(-4).padStart(number.length, '•'),
};

const pick = (data, path) => path.split('.').reduce((value, key) => value?.[key], data);

module.exports = ({ args: { template, data } }) => {
  const used = [];
  const text = template.replace(/\{\{\s*([\w.]+)\s*(?:\|\s*(\w+)\s*)?\}\}/g, (whole, path, filter) => {
    used.push(path);
    const value = pick(data, path);
    if (value === undefined) return '';
    return filter ? filters[filter](value) : String(value);
  });
  return { raw: { text, used, again: template.replaceAll('{{', '<').replaceAll('}}', '>') } };
};
