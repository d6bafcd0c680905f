// HTML from a tagged template that escapes whatever is put into it: text stays text, in an element as in a quoted attribute.
// Knows no page.
import { escapeMarkup } from '../markup.ts';

/** Markup of ours. Nothing that came from outside, JSON least of all, can be one: only `html` makes it. */
export class Html {
  readonly #markup: string;
  constructor(markup: string) {
    this.#markup = markup;
  }
  toString(): string {
    return this.#markup;
  }
}

/** What may stand in a template. Nothing is written for undefined, null, false and true, so that `condition && html` reads well. */
export type HtmlValue = Html | string | number | boolean | null | undefined | readonly HtmlValue[];

const write = (value: HtmlValue): string => {
  if (value instanceof Html) return value.toString();
  if (Array.isArray(value)) return value.map(write).join('');
  if (value === undefined || value === null || typeof value === 'boolean') return '';
  return escapeMarkup(String(value as string | number));
};

/** Attributes must be quoted in the template: a value ends nowhere but at its quote then. */
export const html = (template: TemplateStringsArray, ...values: HtmlValue[]): Html =>
  new Html(template.reduce((markup, part, index) => markup + write(values[index - 1]) + part));

/** An attribute without a value, such as `selected`: there or not. */
export const attribute = (name: 'autofocus' | 'checked' | 'disabled' | 'open' | 'selected', isThere: boolean): Html =>
  new Html(isThere ? ` ${name}` : '');
