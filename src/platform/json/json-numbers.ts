// Finds numbers that a double cannot hold exactly. JSON.parse would round them silently, and a read would return another number
// than was stored.

/** A decimal as its significant digits and the power of ten they stand for: equal numbers have equal forms. */
const normalForm = (literal: string): string => {
  const [, whole = '', fraction = '', exponent = '0'] =
    /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(literal) ?? [];
  const digits = whole + fraction;
  let start = 0;
  while (digits[start] === '0') start += 1;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return `${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
};

/** Fifteen digits survive (IEEE 754, DBL_DIG) but near the ends of the range. */
const isPlain = (literal: string, value: number): boolean =>
  literal.length <= 15 && Math.abs(value) > 1e-290 && Math.abs(value) < 1e290;

const isZero = (literal: string): boolean => /^-?[0.]+(?:[eE]|$)/.test(literal);

/** @param literal a number as JSON writes it. */
export const isExactNumber = (literal: string): boolean => {
  const value = Number(literal);
  if (isPlain(literal, value)) return true;
  if (value === 0) return isZero(literal);
  return Number.isFinite(value) && normalForm(literal) === normalForm(String(value));
};
