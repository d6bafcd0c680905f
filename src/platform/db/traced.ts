// Gives database work spans with the names of statements, never with their parameters.
import type { Tracing } from '../tracing/tracing.ts';
import type { Batcher } from './batcher.ts';

const attributesOf = (name: string) => ({ 'db.system.name': 'postgresql', 'db.query.summary': name });

/** Runs database work in a span of its own. */
export const traced = <T>(tracing: Tracing | undefined, name: string, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.hop(name, 'client', attributesOf(name), work) : work();

/** The same batcher, with a span for each request, from its wait for the batch to the commit. */
export const tracedBatcher = <Result>(
  batcher: Batcher<Result>,
  tracing: Tracing | undefined,
  name: string,
): Batcher<Result> =>
  tracing
    ? { ...batcher, submit: (tenantId, rows) => traced(tracing, name, () => batcher.submit(tenantId, rows)) }
    : batcher;
