// Forms of values that variables of several areas have.
import { HOUR_MS } from '../base/times.ts';
import { z } from 'zod';
import { isHostName } from '../base/host-names.ts';

export const onOrOff = z
  .enum(['true', 'false', '1', '0', 'on', 'off'])
  .transform((text) => text === 'true' || text === '1' || text === 'on');

export const flag = (value: boolean) => onOrOff.default(value);

export const wholeNumberFrom = (least: number, most: number) =>
  z.coerce.number(`must be a whole number from ${least} to ${most}`).int().min(least).max(most);

export const wholeNumber = (least: number, most: number, value: number) => wholeNumberFrom(least, most).default(value);

const durationUnitsMs: Record<string, number> = { s: 1000, m: 60_000, h: HOUR_MS };

export const duration = z
  .string()
  .regex(/^\d{1,6}[smh]?$/, 'must be a number of seconds, or like 90s, 15m or 1h')
  .transform((text) => Number.parseInt(text, 10) * (durationUnitsMs[text.at(-1) ?? 's'] ?? 1000));

export const words = z.string().transform((text) =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter(Boolean),
);

/** Host names without scheme, port or path. Others are refused: they would match no host and protect nothing. */
export const hosts = words.transform((entries, problems) => {
  if (entries.length > 0 && entries.every((entry) => isHostName(entry.replace(/^\*\./, '')))) return entries;
  problems.addIssue(
    'must be host names without scheme, port or path, such as `api.example.com` or `*.example.com`, comma-separated',
  );
  return z.NEVER;
});

/** Decodes a percent-encoded part of a URL; undefined if it is not UTF-8. */
export const percentDecoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
};

export const isOrigin = (text: string): boolean =>
  URL.canParse(text) && /^https?:\/\/[^/?#@\s]+\/?$/i.test(text) && /^https?:$/.test(new URL(text).protocol);

/** Whether traffic to an origin cannot be read on the way: by TLS, or because it stays on this machine. */
export const isPrivateOnTheWay = (origin: string): boolean => {
  const { protocol, hostname } = new URL(origin);
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
};

/** Whether requests to an address cannot be read on the way. */
export const isPrivateUrl = (url: string): boolean =>
  URL.canParse(url) && /^https?:$/.test(new URL(url).protocol) && isPrivateOnTheWay(url);
