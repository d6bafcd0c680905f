// Traces: one span for each request, and one for each of its hops. The type of the service, without OpenTelemetry.
// A server without traces has no service: what would be traced is called as it is.

/** Values of closed lists, numbers and ids of tenants. Never a value, a key, the id of a token, a URL or a text of a client. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export type Span = {
  /** The trace id of W3C Trace Context: 32 hexadecimal digits. */
  readonly trace_id: string;
  set(attributes: SpanAttributes): void;
  /** @param error_type a code of a closed list, if what the span is about failed. */
  end(error_type?: string): void;
};

export type Tracing = {
  /**
   * Starts the span of a request.
   * @param name the method and the template of the route.
   * @param parent the header `traceparent` of a request from the network; `current` for one that the server sends itself.
   */
  startRequest(name: string, parent: { header: string | undefined } | 'current'): Span;
  /** Runs work within a span: its hops become children of the span. */
  within<T>(span: Span, work: () => T): T;
  /**
   * Runs work in a span of its own, a child of the current one. Without a current span that is recorded, the work gets no span.
   * @param kind `client` for a request to another process.
   */
  hop<T>(
    name: string,
    kind: 'internal' | 'client',
    attributes: SpanAttributes,
    work: (span: Span | undefined) => Promise<T>,
  ): Promise<T>;
  /** The function, which runs in the current span wherever it is called from. */
  bind<Parameters extends unknown[], T>(work: (...parameters: Parameters) => T): (...parameters: Parameters) => T;
  /** The header `traceparent` for a request to a host that may know of the trace; undefined for other hosts and without a span. */
  traceparentFor(host: string): string | undefined;
  /** Sends the spans that wait, within a limit of time. */
  close(): Promise<void>;
};

/** A valid `traceparent` of a client. */
export type RemoteParent = { trace_id: string; span_id: string; isSampled: boolean };

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const SAMPLED = 1;

/**
 * Parses a header `traceparent` (https://www.w3.org/TR/trace-context/#traceparent-header). Versions after 00 may have more parts.
 * @returns undefined for an invalid one, which counts as absent.
 */
export const parseTraceparent = (header: string | undefined): RemoteParent | undefined => {
  const [, version, trace_id, span_id, flags, more] = FORM.exec(header ?? '') ?? [];
  if (trace_id === undefined || span_id === undefined || flags === undefined) return undefined;
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(trace_id) || /^0+$/.test(span_id)) return undefined;
  return { trace_id, span_id, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
};
