// What the operator of the embedded PostgreSQL is told: events by name, and errors that bring the command that mends them.
// Knows neither files nor processes; every file beside it speaks through this one.

/** Its message is for the operator: what is wrong, why, and the command that mends it. */
export class EmbeddedPostgresError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'EmbeddedPostgresError';
  }
}

export type Log = (event: string, detail?: Record<string, unknown>) => void;

export const codeOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unknown error';

export const lastLine = (text: string): string => text.trim().split('\n').at(-1)?.trim() || 'no output';
