// Splits an SQL script into its statements. Semicolons in strings, names, comments and dollar-quoted bodies do not end one.

/** What holds a semicolon that ends nothing. Comments of PostgreSQL nest; migrations do not use that. */
const OPAQUE = [
  /--[^\n]*/y,
  /\/\*[\s\S]*?\*\//y,
  /[eE]'(?:[^'\\]|\\[\s\S]|'')*'/y,
  /'(?:[^']|'')*'/y,
  /"(?:[^"]|"")*"/y,
  /(\$(?:[A-Za-z_]\w*)?\$)[\s\S]*?\1/y,
];

/** Identifiers may end in `e` or hold a dollar sign, which begin something else at their start. */
const WORD = /[A-Za-z_][\w$]*/y;
const ESCAPE_STRING = /[eE]'/y;

const matchAt = (pattern: RegExp, text: string, at: number): string | undefined => {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
};

/** The statements of a script in their order, without the semicolons. What has only comments is left out. */
export const splitStatements = (script: string): string[] => {
  const statements: string[] = [];
  let begin = 0;
  let hasCode = false;
  const end = (at: number): void => {
    if (hasCode) statements.push(script.slice(begin, at).trim());
    begin = at + 1;
    hasCode = false;
  };
  for (let at = 0; at < script.length;) {
    const word = matchAt(ESCAPE_STRING, script, at) === undefined ? matchAt(WORD, script, at) : undefined;
    const opaque = word ?? OPAQUE.map((pattern) => matchAt(pattern, script, at)).find((text) => text !== undefined);
    if (opaque !== undefined) {
      hasCode ||= !/^(?:--|\/\*)/.test(opaque);
      at += opaque.length;
      continue;
    }
    if (script[at] === ';') end(at);
    else hasCode ||= !/\s/.test(script[at] as string);
    at += 1;
  }
  end(script.length);
  return statements;
};
