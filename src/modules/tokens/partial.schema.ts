// The answers to partial batches, for the OpenAPI document.
import { z } from 'zod';
import { fieldCodes } from '../../platform/json/problem-codes.ts';
import { ITEM_ERRORS_MAX } from './item-failures.ts';

/** @param data the structure of the request, with null in place of each item that failed. */
export const partialResult = (data: z.ZodType, meta: { id: string; description: string }) =>
  z
    .object({
      data,
      errors: z.record(z.string(), z.array(z.string())).meta({
        description: `Messages about each item that failed, by the path of what is not valid; at most ${ITEM_ERRORS_MAX} in all. They never contain a value.`,
        example: { 'card.data.number': ['must have a valid check digit'] },
      }),
      codes: z.record(z.string(), z.array(z.string().meta({ 'x-extensible-enum': Object.keys(fieldCodes) }))).meta({
        description: 'A code for each message in `errors`: by the same paths, in the same order.',
        example: { 'card.data.number': ['check_digit'] },
      }),
      errors_total: z.int().meta({
        description: 'How many errors there are, also beyond those that are listed. 0: all is done.',
        example: 1,
      }),
    })
    .meta(meta);
