// Writes a text as a cell of CSV (RFC 4180) that a spreadsheet shows as text.

/** Spreadsheets run such a cell as a formula, also after blanks and with wide characters; an apostrophe before it makes it text. */
const isFormula = /^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r]/;
const isNumber = /^[+-]?\d+(?:\.\d+)?$/;

/** Quoted where it has a comma, a quote, a line end or a space at either end. */
export const csvCell = (text: string): string => {
  const safe = isFormula.test(text) && !isNumber.test(text) ? `'${text}` : text;
  return /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
