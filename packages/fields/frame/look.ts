// Applies the style of the page by a constructed style sheet: known properties at our own selectors, with values that load
// nothing and refer to nothing.
import { type FieldsStyle, STYLE_PROPERTIES, type StylePart } from '../src/protocol.ts';

const selectors: Record<StylePart, string> = {
  base: 'input',
  hover: 'input:hover',
  focus: 'input:focus',
  complete: 'input[data-complete]',
  invalid: 'input[aria-invalid="true"]',
  placeholder: 'input::placeholder',
  label: 'label',
  message: '#message',
};

/** A long list of fonts or shadows. */
const VALUE_LENGTH_MAX = 300;

const functions = new Set('rgb rgba hsl hsla hwb lab lch oklab oklch calc min max clamp cubic-bezier steps'.split(' '));

const isSafe = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length <= VALUE_LENGTH_MAX &&
  /^[\w\s#%.,()'"+*/-]*$/.test(value) &&
  [...value.matchAll(/([\w-]*)\(/g)].every(([, name = '']) => name === '' || functions.has(name.toLowerCase()));

const properties = new Set<string>(STYLE_PROPERTIES);

/** Leaves out what is not allowed, and says so in the console of the frame. */
export const applyStyle = (style: FieldsStyle): void => {
  const sheet = new CSSStyleSheet();
  for (const [part, selector] of Object.entries(selectors) as [StylePart, string][]) {
    const { style: declarations } = sheet.cssRules[
      sheet.insertRule(`${selector}{}`, sheet.cssRules.length)
    ] as CSSStyleRule;
    for (const [name, value] of Object.entries(style[part] ?? {}))
      if (properties.has(name) && isSafe(value))
        declarations.setProperty(
          name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
          value,
        );
      else console.warn(`Strongroom fields: the style ${part}.${name} is not supported, or its value is not allowed.`);
  }
  document.adoptedStyleSheets = [sheet];
};
