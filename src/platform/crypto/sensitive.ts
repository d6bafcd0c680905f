// A value that must not be printed. Shows as [sensitive] in JSON, in inspect and in text; opens only by reveal(), whose
// callers are few and known.

const SHOWN = '[sensitive]';

export class Sensitive<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  reveal(): T {
    return this.#value;
  }

  toJSON(): string {
    return SHOWN;
  }

  toString(): string {
    return SHOWN;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return SHOWN;
  }
}
