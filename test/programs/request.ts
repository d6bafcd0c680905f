// Reads what a program of this folder is called with: its second line is `// request: ` and JSON.

const MARK = '// request: ';

export const requestOf = (code: string): { args: unknown } => {
  const line = code.split('\n')[1] ?? '';
  if (!line.startsWith(MARK)) throw new Error(`The second line of a program begins with "${MARK}"`);
  return JSON.parse(line.slice(MARK.length)) as { args: unknown };
};
