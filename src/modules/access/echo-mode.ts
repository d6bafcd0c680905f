// How strict the echo guard is: of a stored proxy, a reactor, an application, a request, and of a tenant where these say nothing.
import { z } from 'zod';

/** Each is stricter than the one before it. */
export const echoModes = ['off', 'mask', 'block'] as const;

export type EchoMode = (typeof echoModes)[number];

/** The strictest of those that say something; undefined if none does. */
export const strictestOf = (modes: readonly (EchoMode | undefined)[]): EchoMode | undefined => {
  const levels = modes.flatMap((mode) => (mode === undefined ? [] : [echoModes.indexOf(mode)]));
  return levels.length === 0 ? undefined : echoModes[Math.max(...levels)];
};

/** Undefined for a text that is no mode. */
export const echoModeOf = (text: unknown): EchoMode | undefined => echoModes.find((mode) => mode === text);

export const ECHO_MODE_NEEDED = 'must be off, mask or block';

export const echoModeSchema = z.enum(echoModes, ECHO_MODE_NEEDED);

export const ECHO_GUARD_TEXT =
  'Whether answers are searched for the values that were opened in their request: `off` not, `mask` writes the id of the token in place of a value, `block` answers 502.';
