// The part of autocannon's interface that the benches use; the package brings no types.
declare module 'autocannon' {
  type Result = {
    requests: { total: number };
    latency: { p50: number; p99: number };
    duration: number;
    errors: number;
    timeouts: number;
    non2xx: number;
  };
  const autocannon: (options: Record<string, unknown>) => Promise<Result>;
  export default autocannon;
}
