// Filters that write a value as one quoted text of JSON, YAML or CSV. No value can end that text.
import { bounded, type Call, stringify, textOf } from './filter-call.ts';
import type { Json } from '../../../platform/json/json.ts';
import { EXPANDED_BYTES_MAX, jsonSize, spend } from './meter.ts';

/** Structure becomes compact JSON. Its size is checked first. */
const textToQuote = (value: Json, call: Call): string => {
  const { bytes, work } = jsonSize(value, EXPANDED_BYTES_MAX);
  bounded(bytes);
  spend(call.meter, work);
  return textOf(value);
};

export const quoteJson = (value: Json, call: Call): string => stringify(textToQuote(value, call), call);

/** YAML accepts JSON strings, except characters that it treats as line ends or as unprintable (YAML 1.2.2, 5.1). */
export const quoteYaml = (value: Json, call: Call): string =>
  quoteJson(value, call).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** RFC 4180 section 2. */
export const quoteCsv = (value: Json, call: Call): string => `"${textToQuote(value, call).replaceAll('"', '""')}"`;
