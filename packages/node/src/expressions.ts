// Builds expressions such as {{ id | json: '$.number' | last4 }}, so that callers write no braces and escape nothing.

export type FilterArgument = string | number | boolean | null;

/** What no id and no filter may hold: line ends and characters that do not show. */
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Cs}]/u;
/** Characters with a meaning in an expression. */
const notInId = /[[\]|{}]/;
const NUMBER = /^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$/;

const writeText = (text: string): string => {
  if (hidden.test(text)) throw new TypeError('An argument of a filter must not have line ends or hidden characters.');
  if (!text.includes("'")) return `'${text}'`;
  if (!text.includes('"')) return `"${text}"`;
  throw new TypeError('An argument of a filter cannot have both kinds of quotation marks.');
};

const writeArgument = (argument: FilterArgument): string => {
  if (argument === null) return 'nil';
  if (typeof argument === 'string') return writeText(argument);
  if (typeof argument === 'boolean' || (typeof argument === 'number' && NUMBER.test(String(argument))))
    return String(argument);
  throw new TypeError('An argument of a filter must be a string, a boolean, null, or a number of at most 15 digits.');
};

/** A step of a JSONPath (RFC 9535). All but plain names is written in escapes, which no quotation mark can end. */
const writeStep = (key: string | number): string => {
  if (typeof key === 'number' && Number.isSafeInteger(key)) return `[${key}]`;
  if (typeof key !== 'string') throw new TypeError('A key must be a string, or the whole number of an element.');
  if (/^\$[.[]/.test(key))
    throw new TypeError("path() takes keys, such as path('number'). A JSONPath goes to filter('json', ...).");
  if (/^[A-Za-z_]\w*$/.test(key)) return `.${key}`;
  const escaped = key.replaceAll(/[^\w .@/:-]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return `['${escaped}']`;
};

/** An expression. It becomes its text in JSON and in template strings. Each method makes a new one. */
export class Expression {
  readonly #head: string;
  readonly #filters: readonly string[];

  /** Use `ref`, `record`, `data` or `expression`. */
  constructor(head: string, filters: readonly string[] = []) {
    this.#head = head;
    this.#filters = filters;
  }

  /** The part of a JSON value at these keys: `path('number')`, `path('lines', 0, 'sku')`. A key is never split at dots. */
  path(...keys: (string | number)[]): Expression {
    return this.filter('json', `$${keys.map(writeStep).join('')}`);
  }

  /** Applies a filter of the vault: `filter('reveal_last', 4)`. */
  filter(name: string, ...args: FilterArgument[]): Expression {
    if (!/^[A-Za-z_]\w*$/.test(name)) throw new TypeError('The name of a filter has letters, digits and _ only.');
    const call = args.length === 0 ? name : `${name}: ${args.map(writeArgument).join(', ')}`;
    return new Expression(this.#head, [...this.#filters, call]);
  }

  /** What stands for a part that the value has not, and for null. */
  default(value: FilterArgument): Expression {
    return this.filter('default', value);
  }

  toString(): string {
    return `{{ ${[this.#head, ...this.#filters].join(' | ')} }}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

const readId = (token: string | { id?: string }): string => {
  const id = typeof token === 'string' ? token : token?.id;
  if (typeof id !== 'string' || id.trim() === '' || id !== id.trim() || hidden.test(id) || notInId.test(id))
    throw new TypeError(
      'An expression needs a token, or its id, without braces, brackets, bars and hidden characters.',
    );
  return id;
};

/** The value of a token: `ref(token).path('number')`. @param token its id, or a record that has it. */
export const ref = (token: string | { id?: string }): Expression => {
  const id = readId(token);
  if (id.startsWith('token:')) throw new TypeError('The id of a token does not begin with token:. Use record(token).');
  return new Expression(id);
};

/** The whole record of a token: `record(token).path('metadata', 'order')`. */
export const record = (token: string | { id?: string }): Expression => new Expression(`token: ${readId(token)}`);

/** The data of a token that is created, for its mask, fingerprint and search indexes: `data('number').filter('reveal_last', 4)`. */
export const data = (...keys: (string | number)[]): Expression =>
  new Expression(
    `data${keys
      .map((key) => {
        if (typeof key === 'number') return `[${key}]`;
        if (/^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u.test(key)) return `.${key}`;
        return `[${writeText(key)}]`;
      })
      .join('')}`,
  );

/** A text with expressions, as it is, where strings with braces are refused. Never pass it a text that others wrote. */
export const expression = (text: string): { toJSON(): string; toString(): string } => new Text(text);

class Text {
  readonly #text: string;
  constructor(text: string) {
    this.#text = text;
  }
  toString(): string {
    return this.#text;
  }
  toJSON(): string {
    return this.#text;
  }
}

export const isExpression = (value: unknown): value is Expression | Text =>
  value instanceof Expression || value instanceof Text;
