// The built-in transform of the type `mask`: replaces what a regular expression matches in the body of a response. It is code like
// any other, so it runs in the sandbox, where an expression that takes too long ends at the limits of code.

/** What a transform of this type is made of. */
export type Mask = { expression: string; replacement: string };

/** Room for a list of alternatives; longer patterns belong into code. */
export const MASK_EXPRESSION_LENGTH_MAX = 1_000;
export const MASK_REPLACEMENT_LENGTH_MAX = 100;

const HEAD = '// The built-in mask.\nconst mask = ';

const BODY = `;
const pattern = new RegExp(mask.expression, 'g');
module.exports = async ({ args: { body, headers } }) => {
  if (body === null) return { body, headers };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const masked = text.replace(pattern, () => mask.replacement);
  // Without a match, the body is sent byte for byte.
  return { body: masked === text ? body : masked, headers };
};
`;

/** Whether an expression is valid as the code reads it. */
export const isPattern = (expression: string): boolean => {
  try {
    return new RegExp(expression, 'g') instanceof RegExp;
  } catch {
    return false;
  }
};

export const codeOfMask = ({ expression, replacement }: Mask): string =>
  HEAD + JSON.stringify({ expression, replacement }) + BODY;

/** The mask that code was made of; undefined for other code. */
export const maskOfCode = (code: string): Mask | undefined => {
  if (!code.startsWith(HEAD) || !code.endsWith(BODY)) return undefined;
  try {
    const { expression, replacement } = JSON.parse(code.slice(HEAD.length, -BODY.length)) as Partial<Mask>;
    if (typeof expression !== 'string' || typeof replacement !== 'string') return undefined;
    const mask = { expression, replacement };
    return codeOfMask(mask) === code ? mask : undefined;
  } catch {
    return undefined;
  }
};
