// Gives a database error its name: the service is away, the row is there already, or it is our own fault.
// The driver's own words go no further than the private cause: they can hold values.
import { AppError, conflict, internal, notFound, unavailable } from '../errors.ts';

/**
 * SQLSTATE classes that mean "not now": connection, authorization, no such database, resources, state, intervention, system;
 * a read-only standby; a transaction that stood still; a privilege or a table that an operator took away (security.md C4, C5).
 */
const passing = /^(08|28|3D|53|55|57|58)|^25006$|^25P03$|^40001$|^40P01$|^42501$|^42P01$/;

const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'EPROTO',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
]);

const UNIQUE_VIOLATION = '23505';
/** Only links refer to rows: what they would link is gone. */
const FOREIGN_KEY_VIOLATION = '23503';

const codeOf = (error: unknown): string | undefined => {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
};

/** An AppError for anything the driver threw: 409 for a duplicate, 503 for what passes, 500 for the rest. */
export const faultOf = (error: unknown): AppError => {
  if (error instanceof AppError) return error;
  const code = codeOf(error);
  if (code === UNIQUE_VIOLATION) return conflict('A record with this id already exists.', error);
  if (code === FOREIGN_KEY_VIOLATION) return notFound('token');
  // Without a SQLSTATE it never reached the database whole: a pool or query time-out, a closed socket.
  if (code === undefined || passing.test(code) || networkCodes.has(code)) return unavailable(error);
  return internal(error);
};
