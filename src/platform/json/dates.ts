// Parses dates of requests: RFC 3339, a date alone, a time without a zone, and a form of older clients. Others are refused.

const isoPattern =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|z|[+-]\d{2}:?\d{2})?)?$/;
/** `8/26/2030 7:23:57 PM -07:00` and `9/27/2030`: a form that older clients send. */
const slashPattern = /^(\d{1,2})\/(\d{1,2})\/(\d{4})(?: (\d{1,2}):(\d{2}):(\d{2}) (AM|PM)(?: ([+-]\d{2}:\d{2}))?)?$/;

const offsetMinutes = (zone: string | undefined): number | undefined => {
  if (zone === undefined || zone === 'Z' || zone === 'z') return 0;
  const digits = zone.slice(1).replace(':', '');
  const hours = Number(digits.slice(0, 2));
  const minutes = Number(digits.slice(2));
  // ISO 8601 zones reach from -12:00 to +14:00.
  if (hours > 14 || minutes > 59) return undefined;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes);
};

type Fields = { year: number; month: number; day: number; hour: number; minute: number; second: number; ms: number };

const toDate = (fields: Fields, zone: string | undefined): Date | undefined => {
  const { year, month, day, hour, minute, second, ms } = fields;
  const offset = offsetMinutes(zone);
  if (offset === undefined || hour > 23 || minute > 59 || second > 59) return undefined;
  const date = new Date(Date.UTC(year, month - 1, day, hour, minute, second, ms));
  // Date.UTC would make 30 February a day in March.
  if (year < 1000 || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  return new Date(date.getTime() - offset * 60_000);
};

/**
 * @param finer whether digits below the millisecond are dropped or rounded `up`, which is exact for both ends of a half-open interval.
 * @returns the time, in UTC if it has no zone; undefined for a text in no documented form.
 */
export const parseDate = (text: string, finer: 'drop' | 'up' = 'drop'): Date | undefined => {
  const iso = isoPattern.exec(text);
  if (iso) {
    const [, year, month, day, hour = 0, minute = 0, second = 0, fraction = '', zone] = iso;
    const ms = Number(fraction.slice(0, 3).padEnd(3, '0'));
    const fields = { year: Number(year), month: Number(month), day: Number(day), hour: Number(hour) };
    const date = toDate({ ...fields, minute: Number(minute), second: Number(second), ms }, zone);
    const isBetween = finer === 'up' && /[1-9]/.test(fraction.slice(3));
    return date && isBetween ? new Date(date.getTime() + 1) : date;
  }
  const slash = slashPattern.exec(text);
  if (!slash) return undefined;
  const [, month, day, year, hour12, minute = 0, second = 0, half, zone] = slash;
  if (hour12 !== undefined && (Number(hour12) < 1 || Number(hour12) > 12)) return undefined;
  const hour = hour12 === undefined ? 0 : (Number(hour12) % 12) + (half === 'PM' ? 12 : 0);
  const fields = { year: Number(year), month: Number(month), day: Number(day), hour };
  return toDate({ ...fields, minute: Number(minute), second: Number(second), ms: 0 }, zone);
};
