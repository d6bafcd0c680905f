// The messages between the supervisor and its workers, over the channel that Node opens for a child process.
import { z } from 'zod';

/** Secrets go to a worker by message: its environment and command line are in /proc for every process of the user. */
const toWorker = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('start'), variables: z.record(z.string(), z.string()) }),
  z.object({ kind: z.literal('stop'), drains: z.boolean() }),
]);

const fromWorker = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready'), base_url: z.string() }),
  /** With what the operator is told. */
  z.object({ kind: z.literal('failed'), text: z.string() }),
]);

export type ToWorker = z.infer<typeof toWorker>;
export type FromWorker = z.infer<typeof fromWorker>;

/** @throws ZodError, which holds no value. */
export const parseToWorker = (message: unknown): ToWorker => toWorker.parse(message);
export const parseFromWorker = (message: unknown): FromWorker => fromWorker.parse(message);
