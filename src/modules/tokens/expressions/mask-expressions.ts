// Puts masks in the place of values in an expansion, for previews. It looks nothing up, and opens no value.
import type { Json } from '../../../platform/json/json.ts';
import { Absent } from './absent.ts';
import type { Expansion } from './expansion.ts';
import { ExpressionError } from './expression-error.ts';
import { applyFilters } from './filters.ts';
import type { Expression } from './template.ts';

/** In place of a value without a mask. Every header, path and charset holds these letters as they are. */
export const HIDDEN = 'XXXX';

/** An expansion in which the expressions that were found have the masks of their values. Filters that do not fit a mask hide it. */
export const maskExpressions = (expansion: Expansion): Expansion => {
  const masks = new Map<Expression, Json>();
  const { templates } = expansion.references;
  for (const [text, template] of templates) {
    const parts = template.parts.map((part) => {
      if (typeof part === 'string') return part;
      const masked = { ...part, filters: [] };
      masks.set(masked, maskOfExpression(part, expansion));
      return masked;
    });
    templates.set(text, { ...template, parts });
  }
  return { ...expansion, valueOf: (expression) => masks.get(expression) };
};

const maskOfExpression = (expression: Expression, expansion: Expansion): Json => {
  try {
    const mask = expansion.valueOf(expression);
    // No filter makes something of a value that is not shown.
    if (mask === undefined) return HIDDEN;
    const shown = applyFilters(mask, expression.filters, expansion.environment, expansion.meter);
    return shown === undefined || shown instanceof Absent ? HIDDEN : shown;
  } catch (error) {
    if (error instanceof ExpressionError) return HIDDEN;
    throw error;
  }
};
