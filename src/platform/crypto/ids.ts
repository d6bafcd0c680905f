// Generates record ids. Token ids are UUID v4: unguessable, without a time. Log ids are UUID v7 (RFC 9562 section 5.7): ordered
// by time, so that the log's index grows at one end.
import { createHash, randomUUID } from 'node:crypto';
import { invalidField } from '../base/errors.ts';
import type { RandomBytes } from './random.ts';

/** @param hex of 16 bytes. */
export const uuidOf = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/** The same for the same name. */
export const uuidOfName = (name: string): string =>
  uuidOf(createHash('sha256').update(name).digest('hex').slice(0, 32));

/** Below every id. */
export const LEAST_ID = '00000000-0000-0000-0000-000000000000';
/** No id is above it. */
export const GREATEST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export const newUuid = (): string => randomUUID();

/** @param nowMs milliseconds since 1970. */
export const newTimeOrderedId = (nowMs: number, randomBytes: RandomBytes): string => {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return uuidOf(bytes.toString('hex'));
};

/** RFC 9562 gives a version 7 id 48 bits for its time. */
const TIME_MAX_MS = 2 ** 48 - 1;

/** The lowest id that `newTimeOrderedId` can make at a time. */
export const firstIdAt = (atMs: number): string => {
  const time = Math.min(TIME_MAX_MS, Math.max(0, atMs)).toString(16).padStart(12, '0');
  return uuidOf(`${time}70008000000000000000`);
};

/** A half-open interval of time: from `start_date` on, and before `end_date`. */
export type DateRange = { start_date?: Date | undefined; end_date?: Date | undefined };

/** The same interval of time-ordered ids. @throws invalidField for one that ends before it begins. */
export const toIdRange = ({ start_date, end_date }: DateRange) => {
  if (start_date && end_date && start_date > end_date) throw invalidField('start_date', 'must not be after end_date');
  return { from_id: start_date && firstIdAt(start_date.getTime()), to_id: end_date && firstIdAt(end_date.getTime()) };
};

/** An id as text that the database takes. */
export const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

/** The cursor of a list by ids. @returns undefined for one that no list has given. */
export const parseIdCursor = ([id]: string[]): string | undefined => (id !== undefined && isUuid(id) ? id : undefined);

/** @param id time-ordered. */
export const timeOfId = (id: string): Date => new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16));

/** The first id of a month in UTC. @param months from the month of `at`; negative before it. */
export const firstIdOfMonth = (at: Date, months: number): string =>
  firstIdAt(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + months, 1));

/** The first id of the month after that of an id. */
export const monthEndOf = (id: string): string => firstIdOfMonth(timeOfId(id), 1);
