// Writes and reads CSV with quotes, without a package.
// request: {"args":{"rows":[{"id":1,"name":"Zoë, \"Z\"","amount":12.5},{"id":2,"name":"line\nbreak","amount":null},{"id":3,"name":"","amount":0}]}}
const quote = (value) => {
  const text = value === null || value === undefined ? '' : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};
const write = (rows) => {
  const columns = [...new Set(rows.flatMap(Object.keys))];
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))]
    .map((line) => line.map(quote).join(','))
    .join('\r\n');
};
const read = (text) => {
  const rows = [[]];
  let cell = '';
  let quoted = false;
  for (let i = 0; i <= text.length; i++) {
    const char = text[i];
    if (quoted) {
      if (char === '"' && text[i + 1] === '"') ((cell += '"'), i++);
      else if (char === '"') quoted = false;
      else cell += char;
    } else if (char === '"') quoted = true;
    else if (char === ',' || char === undefined || char === '\n') {
      rows[rows.length - 1].push(cell);
      cell = '';
      if (char === '\n') rows.push([]);
    } else if (char !== '\r') cell += char;
  }
  return rows;
};

module.exports = (req) => {
  const text = write(req.args.rows);
  return { raw: { text, back: read(text) } };
};
