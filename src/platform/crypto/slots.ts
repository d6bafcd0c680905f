// Slots of half a minute, whose keys seal security codes: their ids, and what their wrapped keys are bound to.
import { createHash } from 'node:crypto';
import { uuidOf } from './ids.ts';
import type { SealingForm } from './seal.ts';

/** A key seals the codes of half a minute. With a sweep every 15 seconds, a code is unrecoverable before CVC_TTL plus a minute. */
export const EPHEMERAL_SLOT_MS = 30_000;

export type EphemeralKeyRow = { id: string; wrapped: Uint8Array; destroy_at: Date };

/** The digits of the time in milliseconds: the first 48 bits of an id, as in UUIDs of version 7. */
const TIME_DIGITS = 12;

/** A UUID of version 8 (RFC 9562 section 5.8). @param time the first hexadecimal digits. */
const slotUuid = (text: string, time = ''): string => {
  const bytes = createHash('sha256').update(text).digest();
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = time + bytes.toString('hex').slice(time.length);
  return uuidOf(hex.slice(0, 32));
};

/**
 * The id of a slot. Form 1, of earlier versions, is a digest of the time. Form 2 begins with the time, so that each process knows
 * from an id alone what the key is bound to.
 */
export const slotIdOf = (startMs: number, form: SealingForm): string =>
  form === 1
    ? slotUuid(`ephemeral slot ${startMs}`)
    : slotUuid(`timed ephemeral slot ${startMs}`, startMs.toString(16).padStart(TIME_DIGITS, '0'));

/** The form of a slot, and of the codes that are sealed under its key. */
export const formOfSlot = (id: string): SealingForm =>
  slotIdOf(Number.parseInt(id.replaceAll('-', '').slice(0, TIME_DIGITS), 16), 2) === id ? 2 : 1;

/** What the wrapped key of a slot is bound to: in form 2 the time of its destruction too. */
export const ephemeralKeyContext = (environment: string, { id, destroy_at }: Omit<EphemeralKeyRow, 'wrapped'>) => [
  'ephemeral key',
  environment,
  id,
  ...(formOfSlot(id) === 2 ? [destroy_at.toISOString()] : []),
];

/**
 * Whether a row has the time of destruction that its slot was made with. A wrapped key of form 1 does not bind that time, but its
 * id is a digest of it. So after a change of CVC_TTL, codes of form 1 do not open: they live for a day at most.
 */
export const isTimeOfSlot = ({ id, destroy_at }: Omit<EphemeralKeyRow, 'wrapped'>, cvcTtlMs: number): boolean =>
  formOfSlot(id) === 2 || slotIdOf(destroy_at.getTime() - cvcTtlMs - EPHEMERAL_SLOT_MS, 1) === id;
