// Variables of the console and its sign-in, and of the frames that collect cards.
import { z } from 'zod';
import { isHostName } from '../base/host-names.ts';
import { duration, flag, isOrigin, onOrOff } from './forms.ts';
import { HOUR_MS, MINUTE_MS } from '../base/times.ts';

/** PCI DSS 8.2.8: a session ends after 15 minutes without use. */
const SESSION_IDLE_DEFAULT = '15m';
/** The last use of a session is written once a minute: a shorter time would end sessions in use. */
const SESSION_IDLE_MIN_MS = 2 * MINUTE_MS;
/** A working day, after which every session ends. */
const SESSION_IDLE_MAX_MS = 12 * HOUR_MS;

/** PCI DSS 8.3.4: after too many failures an account stays locked for 30 minutes. */
const SIGN_IN_LOCKOUT_DEFAULT = '30m';
const SIGN_IN_LOCKOUT_MAX_MS = 24 * HOUR_MS;

/** Variables of the console and of frames. */
export const peopleVariables = {
  CONSOLE: flag(true).describe('`off` leaves out sign-in and `/console`.'),
  CONSOLE_HOST: z
    .string()
    .refine(isHostName, 'must be a host name without scheme, port or path, such as `console.example.com`')
    .optional()
    .describe(
      'A host of its own for the pages of people: only they are served there, and only there. Not set: they share a host with the API and the proxy.',
    ),
  FIELDS_ORIGIN: z
    .string()
    .refine(isOrigin, 'must be an origin, such as https://fields.example.com')
    .optional()
    .describe(
      'An origin of its own for the frames of the fields library and the pages of sessions: only they, and the two routes that create tokens, are served on its host. Not set: they share a host with the API.',
    ),
  SESSION_IDLE: duration
    .refine((ms) => ms >= SESSION_IDLE_MIN_MS && ms <= SESSION_IDLE_MAX_MS, 'must be from 2m to 12h')
    .prefault(SESSION_IDLE_DEFAULT)
    .describe('A console session that is not used for this long ends, from 2m to 12h.'),
  REQUIRE_SECOND_FACTOR: onOrOff
    .optional()
    .describe(
      'Whether members sign in with a second factor, where the setting `require_second_factor` of their tenant does not say it. Not set: `on` in production, `off` in development.',
    ),
  SIGN_IN_LOCKOUT: duration
    .refine((ms) => ms >= MINUTE_MS && ms <= SIGN_IN_LOCKOUT_MAX_MS, 'must be from 1m to 24h')
    .prefault(SIGN_IN_LOCKOUT_DEFAULT)
    .describe(
      'How long failed sign-ins count, and lock an account for the address that they came from, from 1m to 24h.',
    ),
};
