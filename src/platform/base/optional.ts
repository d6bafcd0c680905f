// Schemas of attributes that a client may leave out. Null is absence: typed clients write it for members that are not set.
import { z } from 'zod';

/** An attribute that is undefined where it is left out or null. */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => (value ?? undefined) as z.output<T> | undefined);

/** An attribute that has a value of its own where it is left out or null. */
export const optionalWith = <T extends z.ZodType>(schema: T, otherwise: z.output<T>) =>
  schema.nullish().transform((value) => (value ?? otherwise) as z.output<T>);

/** The attributes of an object that are neither null nor undefined. */
export const withoutNulls = <T extends Record<string, unknown>>(given: T): { [K in keyof T]: Exclude<T[K], null> } =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => (value ?? null) !== null)) as {
    [K in keyof T]: Exclude<T[K], null>;
  };
