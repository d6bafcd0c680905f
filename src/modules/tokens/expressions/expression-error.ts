// The error of the expression language. It describes the fault without the expression or its value.

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
  | 'absent_path'
  | 'no_security_code'
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
 * An invalid expression, or one that cannot be evaluated. The message never holds a value or the expression. `offset` counts
 * UTF-16 units from the start of the template, if known.
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
