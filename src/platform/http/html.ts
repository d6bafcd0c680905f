// Makes HTML with a tagged template that escapes every value, for elements and for quoted attributes.

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

export const escapeMarkup = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => entities[character] as string);

/** Safe markup. Only `html` and `attribute` make it, so that no value from a request can be one. */
export class Html {
  readonly #markup: string;
  constructor(markup: string) {
    this.#markup = markup;
  }
  toString(): string {
    return this.#markup;
  }
}

/** A value in a template. undefined, null, false and true write nothing, so that a template may have `condition && html`. */
export type HtmlValue = Html | string | number | boolean | null | undefined | readonly HtmlValue[];

const write = (value: HtmlValue): string => {
  if (value instanceof Html) return value.toString();
  if (Array.isArray(value)) return value.map(write).join('');
  if (value === undefined || value === null || typeof value === 'boolean') return '';
  return escapeMarkup(String(value as string | number));
};

/** Attributes must be quoted in the template, so that a value cannot end them. */
export const html = (template: TemplateStringsArray, ...values: HtmlValue[]): Html =>
  new Html(template.reduce((markup, part, index) => markup + write(values[index - 1]) + part));

/** An attribute without a value, such as `selected`. */
export const attribute = (name: 'autofocus' | 'checked' | 'disabled' | 'open' | 'selected', isThere: boolean): Html =>
  new Html(isThere ? ` ${name}` : '');
