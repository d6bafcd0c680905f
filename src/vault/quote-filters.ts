// Filters that write a value as one quoted text of JSON, YAML or CSV: whatever it holds, it cannot end that text.
import { bounded, type Call, stringify, textOf } from './filter-call.ts';
import type { Json } from './json.ts';
import { EXPANDED_BYTES_MAX, jsonSize, spend } from './meter.ts';

/** Structure as its JSON, as in any text; measured before it is made. */
const textToQuote = (value: Json, call: Call): string => {
  const { bytes, work } = jsonSize(value, EXPANDED_BYTES_MAX);
  bounded(bytes);
  spend(call.meter, work);
  return textOf(value);
};

export const quoteJson = (value: Json, call: Call): string => stringify(textToQuote(value, call), call);

/** YAML takes the text of JSON, but for characters that it counts as line ends or does not print (YAML 1.2.2, 5.1). */
export const quoteYaml = (value: Json, call: Call): string =>
  quoteJson(value, call).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** RFC 4180 section 2. */
export const quoteCsv = (value: Json, call: Call): string => `"${textToQuote(value, call).replaceAll('"', '""')}"`;
