// The messages between the supervisor and its workers, over the channel that Node opens for a child process.
import { z } from 'zod';
import { operationNameSchema } from './platform/base/held-operations.ts';

/** Descriptor from which a worker reads root keys that operators gave as shares. */
export const KEYS_FD = 4;

/** Secrets go to a worker by message: its environment and command line are in /proc for every process of the user. */
const toWorker = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('start'),
    variables: z.record(z.string(), z.string()),
    /** Whether root keys come through KEYS_FD. */
    has_keys: z.boolean(),
    /** The heavy worker listens on this socket, and on no port. */
    heavy_socket: z.string().optional(),
  }),
  /** Answers for a sealed vault. The port must be the one of `start`: the supervisor shares it between both. */
  z.object({ kind: z.literal('start_sealed'), host: z.string(), port: z.number() }),
  z.object({ kind: z.literal('stop'), drains: z.boolean() }),
  /** An operation held the event loop of another worker, or ended it. */
  z.object({ kind: z.literal('held'), operation: operationNameSchema, is_fatal: z.boolean() }),
  /** These tenants have heavy work. */
  z.object({ kind: z.literal('heavy_tenants'), tenant_ids: z.array(z.string()) }),
  /** Socket of the heavy worker; null where there is none now. */
  z.object({ kind: z.literal('heavy_worker'), socket: z.string().nullable() }),
  /** Asks for the figures of the worker. */
  z.object({ kind: z.literal('send_metrics'), id: z.number() }),
  /** Answers `ask_metrics_text`. */
  z.object({ kind: z.literal('metrics_text'), id: z.number(), text: z.string() }),
]);

/** A `MetricReport` of platform/metrics. What is no number becomes null in JSON. */
const metricReport = z.object({
  name: z.string(),
  help: z.string(),
  type: z.string(),
  aggregator: z.string(),
  values: z.array(
    z.object({
      metricName: z.string().optional(),
      labels: z.record(z.string(), z.union([z.string(), z.number()])),
      value: z
        .number()
        .nullable()
        .transform((value) => value ?? Number.NaN),
    }),
  ),
});

const fromWorker = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready'), base_url: z.string() }),
  /** With what the operator is told. */
  z.object({ kind: z.literal('failed'), text: z.string(), is_final: z.boolean() }),
  /** An operation held its event loop. */
  z.object({ kind: z.literal('held'), operation: operationNameSchema }),
  /** It found that these tenants have heavy work. */
  z.object({ kind: z.literal('heavy_tenants'), tenant_ids: z.array(z.string()) }),
  /** Answers `send_metrics`. */
  z.object({ kind: z.literal('metrics'), id: z.number(), report: z.array(metricReport) }),
  /** Asks for the figures of all workers, for a client of this one. */
  z.object({ kind: z.literal('ask_metrics_text'), id: z.number() }),
]);

export type ToWorker = z.infer<typeof toWorker>;
export type FromWorker = z.infer<typeof fromWorker>;

/** @throws ZodError, which holds no value. */
export const parseToWorker = (message: unknown): ToWorker => toWorker.parse(message);
export const parseFromWorker = (message: unknown): FromWorker => fromWorker.parse(message);
