// Reads a settlement file with csv-parse, at once and as a stream.
// request: {"args":{"csv":"id,amount,note\r\n1,12.50,\"a, \"\"b\"\"\"\r\n2,3,\"two\r\nlines\"\r\n# comment\r\n3,,ü\r\n"}}
const { parse: parseNow } = require('csv-parse/sync');
const { parse } = require('csv-parse');

module.exports = async ({ args: { csv } }) => {
  const options = { columns: true, comment: '#', skip_empty_lines: true };
  const rows = [];
  const parser = parse(csv, { ...options, cast: (value, { column }) => (column === 'amount' ? Number(value) : value) });
  for await (const row of parser) rows.push(row);
  const called = await new Promise((resolve, reject) => {
    parse('a;b\n1;2', { delimiter: ';' }, (error, records) => (error ? reject(error) : resolve(records)));
  });
  let fault;
  try {
    parseNow('a,b\n1,2,3');
  } catch (error) {
    fault = [error.code, error.message];
  }
  return {
    raw: { now: parseNow(csv, options), rows, called, fault, bytes: parseNow(Buffer.from('x,y'), { trim: true }) },
  };
};
