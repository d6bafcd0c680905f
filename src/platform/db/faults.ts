// Maps database errors to AppErrors. The driver's message stays in the private cause, because it can contain values.
import { alreadyExists, AppError, internal, notFound, unavailable } from '../base/errors.ts';

/**
 * SQLSTATE classes and codes of temporary failures (503): connection (08), authorization (28), no such database (3D), resources (53),
 * object state (55), operator intervention (57), system (58); a read-only standby, an idle transaction, a serialization failure, a
 * deadlock; a missing privilege or table, which an operator has to restore.
 */
const TEMPORARY = /^(08|28|3D|53|55|57|58)|^25006$|^25P03$|^40001$|^40P01$|^42501$|^42P01$/;

const NETWORK_CODES = new Set([
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
/** Only associations have foreign keys: one of their tokens was deleted. */
const FOREIGN_KEY_VIOLATION = '23503';

const codeOf = (error: unknown): string | undefined => {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
};

/** The AppError for an error of the driver: 409 for a duplicate, 404 for a deleted token, 503 for a temporary failure, else 500. */
export const faultOf = (error: unknown): AppError => {
  if (error instanceof AppError) return error;
  const code = codeOf(error);
  if (code === UNIQUE_VIOLATION) return alreadyExists(undefined, error);
  if (code === FOREIGN_KEY_VIOLATION) return notFound('token');
  // Errors without a code are time-outs of the pool or of a query, and closed connections.
  if (code === undefined || TEMPORARY.test(code) || NETWORK_CODES.has(code)) return unavailable(error);
  return internal(error);
};
