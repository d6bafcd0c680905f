// Args without tokens, and the limit on the input of a run. Args with tokens are tested through the API.
import { describe, expect, test } from 'vitest';
import { AppError } from '../../platform/base/errors.ts';
import { RUN_BYTES_MAX } from '../../platform/sandbox/protocol/sandbox.ts';
import { inputOf } from './args.ts';

const refusalOf = (run: () => unknown): AppError => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    return error as AppError;
  }
  throw new Error('nothing was refused');
};

/** What is around the args. */
const FRAME_BYTES = inputOf({ args: '', configuration: {}, has_svc: false }).length;

describe('what goes into the sandbox', () => {
  test('is one JSON text of args, configuration and whether there is a service', () => {
    const given = { args: { card: { number: '4242' }, amount: 1.5 }, configuration: { SHOP: 'x' }, has_svc: true };
    expect(JSON.parse(inputOf(given))).toEqual(given);
  });

  test('ends at 5 MB, and is refused from the next byte on', () => {
    const args = 'x'.repeat(RUN_BYTES_MAX - FRAME_BYTES);
    expect(inputOf({ args, configuration: {}, has_svc: false })).toHaveLength(RUN_BYTES_MAX);
    const refusal = refusalOf(() => inputOf({ args: `${args}x`, configuration: {}, has_svc: false }));
    expect(refusal).toMatchObject({ code: 'payload_too_large', status: 413 });
    expect(refusal.message).not.toContain('xx');
  });

  test('is counted in bytes, not in characters', () => {
    const args = '€'.repeat(Math.ceil(RUN_BYTES_MAX / 3));
    expect(args.length).toBeLessThan(RUN_BYTES_MAX / 2);
    expect(refusalOf(() => inputOf({ args, configuration: {}, has_svc: false })).status).toBe(413);
  });

  test('is counted as it is written, with its escapes', () => {
    const args = '\n'.repeat(Math.ceil(RUN_BYTES_MAX / 2));
    expect(refusalOf(() => inputOf({ args, configuration: {}, has_svc: false })).status).toBe(413);
  });

  test('is counted with the configuration', () => {
    const half = 'x'.repeat(RUN_BYTES_MAX / 2);
    const given = { args: half, configuration: { a: half }, has_svc: false };
    expect(refusalOf(() => inputOf(given)).status).toBe(413);
  });
});
