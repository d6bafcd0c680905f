// Schemas of the endpoints for tests.
import { z } from 'zod';
import { optional } from '../../platform/base/optional.ts';
import { nameSchema } from '../access/names.ts';

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A time as tests write it, such as `90s`, `15m`, `1h` or `30d`, in milliseconds. */
export const advance = z
  .string()
  .regex(/^[1-9]\d{0,8}[smhd]$/, 'must be a time such as 90s, 15m, 1h or 30d')
  .transform((text) => Number.parseInt(text, 10) * UNITS_MS[text.at(-1) as keyof typeof UNITS_MS]);

export const clockChange = z.object({ advance });

export const newTenant = z.object({ name: optional(nameSchema) });
