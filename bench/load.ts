// A closed-loop load from a process of its own: N connections, each sending its next request when the last is answered.
// Loopback only, bounded in time.
import autocannon from 'autocannon';

export type Load = {
  url: string;
  headers: Record<string, string>;
  /** Without a body it is a GET. */
  body?: string;
  /** Further paths of the same server, asked for in turn. */
  paths?: string[];
  connections: number;
  seconds: number;
};

export type LoadResult = { requestsPerSecond: number; p50Ms: number; p99Ms: number; errors: number };

/** Runs the load in a worker thread of autocannon's, so that the generator does not share the caller's event loop. */
export const runLoad = async ({ url, headers, body, paths, connections, seconds }: Load): Promise<LoadResult> => {
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(new URL(url).hostname))
    throw new Error('loads go to loopback only');
  const result = await autocannon({
    url,
    method: body === undefined ? 'GET' : 'POST',
    headers,
    ...(body !== undefined && { body }),
    ...(paths && { requests: paths.map((path) => ({ path })) }),
    connections,
    duration: seconds,
  });
  return {
    requestsPerSecond: result.requests.total / result.duration,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    errors: result.errors + result.non2xx + result.timeouts,
  };
};
