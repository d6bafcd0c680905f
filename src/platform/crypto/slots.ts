// Slots of half a minute, whose keys seal security codes: their ids, and what their wrapped keys are bound to.
import { createHash } from 'node:crypto';
import { uuidOf } from './ids.ts';

/** A key seals the codes of half a minute. With a sweep every 15 seconds, a code is unrecoverable before CVC_TTL plus a minute. */
export const EPHEMERAL_SLOT_MS = 30_000;

export type EphemeralKeyRow = { id: string; wrapped: Uint8Array; destroy_at: Date };

/** The digits of the time in milliseconds: the first 48 bits of an id, as in UUIDs of version 7. */
const TIME_DIGITS = 12;

/** The id of a slot: a UUID of version 8 (RFC 9562 section 5.8) that begins with the time, the same in each process. */
export const slotIdOf = (startMs: number): string => {
  const bytes = createHash('sha256').update(`ephemeral slot ${startMs}`).digest();
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = startMs.toString(16).padStart(TIME_DIGITS, '0') + bytes.toString('hex').slice(TIME_DIGITS);
  return uuidOf(hex.slice(0, 32));
};

/** What the wrapped key of a slot is bound to: its time of destruction too, so that a writer of the database cannot prolong it. */
export const ephemeralKeyContext = (environment: string, { id, destroy_at }: Omit<EphemeralKeyRow, 'wrapped'>) => [
  'ephemeral key',
  environment,
  id,
  destroy_at.toISOString(),
];
