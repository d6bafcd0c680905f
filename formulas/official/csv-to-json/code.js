// Reads CSV as RFC 4180 has it. An error names the line and never what stands there.
const { BadRequestError } = require('@svc/reactor-formulas-sdk');

const refuse = (argument, sentence) => {
  throw new BadRequestError({ [argument]: [sentence] });
};

const records = (text, delimiter) => {
  const all = [];
  let record = [];
  let line = 1;
  let at = 0;
  for (;;) {
    const start = line;
    let cell = '';
    if (text[at] === '"') {
      for (at += 1; ; at += 1) {
        if (at >= text.length) refuse('csv', `line ${start}: a quote is not closed`);
        if (text[at] === '\n') line += 1;
        if (text[at] !== '"') cell += text[at];
        else if (text[at + 1] === '"') cell += text[(at += 1)];
        else break;
      }
      at += 1;
      if (at < text.length && ![delimiter, '\n', '\r'].includes(text[at]))
        refuse('csv', `line ${line}: text follows a closing quote`);
    } else {
      const from = at;
      while (at < text.length && text[at] !== delimiter && text[at] !== '\n' && text[at] !== '\r') at += 1;
      cell = text.slice(from, at);
      if (cell.includes('"')) refuse('csv', `line ${line}: a quote stands within a cell that is not quoted`);
    }
    record.push(cell);
    if (text[at] === delimiter) {
      at += 1;
      continue;
    }
    // A blank line is no record.
    if (record.length > 1 || record[0] !== '') all.push({ record, line: start });
    record = [];
    if (at >= text.length) return all;
    at += text[at] === '\r' && text[at + 1] === '\n' ? 2 : 1;
    line += 1;
    if (at >= text.length) return all;
  }
};

const namesOf = (header) => {
  const names = header.map((name) => name.trim());
  if (names.some((name) => name === '' || ['__proto__', 'constructor', 'prototype'].includes(name)))
    refuse('csv', 'line 1: a column has no name, or one that cannot be used');
  if (new Set(names).size < names.length) refuse('csv', 'line 1: two columns have the same name');
  return names;
};

module.exports = async ({ args }) => {
  const { csv, tokenize } = args;
  const delimiter = args.delimiter ?? ',';
  if (delimiter.length !== 1 || /["\r\n]/.test(delimiter)) refuse('delimiter', 'must be one character, and no quote');
  const [header, ...lines] = records(csv.replace(/^\uFEFF/, ''), delimiter);
  if (header === undefined) refuse('csv', 'must have a header');
  const names = namesOf(header.record);
  const secret = new Set(
    (tokenize || '')
      .split(',')
      .map((name) => name.trim())
      .filter(Boolean),
  );
  for (const name of secret) if (!names.includes(name)) refuse('tokenize', 'must name columns of the header');
  const rows = lines.map(({ record, line }) => {
    if (record.length !== names.length) refuse('csv', `line ${line}: has not as many cells as the header`);
    return names.map((name, index) => [name, record[index] === '' ? null : record[index]]);
  });
  const pick = (isSecret) =>
    rows.map((row) => Object.fromEntries(row.filter(([name]) => secret.has(name) === isSecret)));
  const result = { raw: { rows: pick(false) } };
  if (secret.size > 0) result.tokenize = { rows: pick(true) };
  return result;
};
