// A collector of OpenTelemetry: a real HTTP server that takes OTLP in JSON, and what it was sent.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

type Value = { stringValue?: string; intValue?: number | string; boolValue?: boolean; doubleValue?: number };
type Attribute = { key: string; value: Value };
type SentSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  attributes?: Attribute[];
  status?: { code?: number };
};
type Sent = {
  resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: SentSpan[] }[] }[];
};

const attributesOf = (attributes: Attribute[] = []): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

/** 2 server, 3 client, 1 internal, as in the protocol. */
const kinds = ['unspecified', 'internal', 'server', 'client'];

export type CollectedSpan = {
  trace_id: string;
  id: string;
  parent: string;
  name: string;
  kind: string;
  attributes: Record<string, unknown>;
  isError: boolean;
  resource: Record<string, unknown>;
};

export type Collector = {
  url: string;
  /** Every byte of every request, as it came. */
  text(): string;
  headers: IncomingHttpHeaders[];
  paths: string[];
  spans(): CollectedSpan[];
  close(): Promise<void>;
};

const take = (response: ServerResponse): void => {
  response.setHeader('content-type', 'application/json');
  response.end('{}');
};

/** @param answer in place of a collector's; it may leave the request without one. */
export const startCollector = async (
  answer: (response: ServerResponse, body: string) => void = take,
): Promise<Collector> => {
  const bodies: string[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const paths: string[] = [];
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    bodies.push(body);
    headers.push(request.headers);
    paths.push(`${request.method} ${request.url}`);
    answer(response, body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    text: () => bodies.join('\n'),
    headers,
    paths,
    spans: () =>
      bodies.flatMap((body) =>
        (JSON.parse(body) as Sent).resourceSpans.flatMap(({ resource, scopeSpans }) =>
          scopeSpans
            .flatMap(({ spans }) => spans)
            .map((span) => ({
              trace_id: span.traceId,
              id: span.spanId,
              parent: span.parentSpanId ?? '',
              name: span.name,
              kind: kinds[span.kind] ?? '',
              attributes: attributesOf(span.attributes),
              isError: span.status?.code === 2,
              resource: attributesOf(resource.attributes),
            })),
        ),
      ),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};

let given = 0;
/** A `traceparent` of its own for each request. */
export const newParent = (flags = '01') => {
  given += 1;
  const trace_id = `4bf92f3577b34da6a3ce${String(given).padStart(12, '0')}`;
  return { trace_id, id: '00f067aa0ba902b7', header: `00-${trace_id}-00f067aa0ba902b7-${flags}` };
};
