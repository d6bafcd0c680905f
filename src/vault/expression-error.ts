// The one error of the expression language. It says what is wrong with an expression, and knows neither the expression
// nor the value that it was evaluated on.

export type ExpressionErrorCode =
  | 'unclosed'
  | 'empty'
  | 'nested'
  | 'too_long'
  | 'bad_character'
  | 'bad_filter'
  | 'unknown_filter'
  | 'misplaced_filter'
  | 'bad_argument'
  | 'unknown_head'
  | 'unknown_token'
  | 'not_one_value'
  | 'wrong_type'
  | 'no_alias'
  | 'not_coded'
  | 'from_a_token'
  | 'too_deep'
  | 'too_complex'
  | 'too_many_placeholders'
  | 'too_many_tokens'
  | 'too_large';

/**
 * An expression that cannot be read or evaluated. The message names what is wrong and never holds a value or the
 * expression itself. `offset` counts UTF-16 units from the start of the template, where one is known.
 */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
  readonly code: ExpressionErrorCode;
  readonly offset: number | undefined;

  constructor(code: ExpressionErrorCode, message: string, offset?: number) {
    super(message);
    this.code = code;
    this.offset = offset;
  }
}
