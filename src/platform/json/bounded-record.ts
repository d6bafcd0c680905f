// A zod schema for objects with a limit on their entries, which are counted before each is validated.
import { z } from 'zod';

/** What counts of an object. */
type Count = (given: object) => number;

const countNames: Count = (given) => Object.keys(given).length;

/**
 * zod validates an entry in 2 µs and has no limit for records: the 90,000 entries of a body of a megabyte would hold the event
 * loop for 180 ms.
 * @param error the sentence for a value that is no object.
 * @param tooMany the sentence for more entries.
 */
export const boundedRecord = <Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(
  key: Key,
  value: Value,
  entriesMax: number,
  { error, tooMany, count = countNames }: { error?: string; tooMany?: string; count?: Count } = {},
) =>
  z
    .unknown()
    .refine((given) => typeof given !== 'object' || given === null || count(given) <= entriesMax, {
      error: tooMany ?? `must have at most ${entriesMax} entries`,
      abort: true,
    })
    .pipe(z.record(key, value, error));
