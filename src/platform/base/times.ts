// The times of requests, and of all that waits for them. Each is shorter than what is around it: times.test.ts has the order,
// docs/operations/times.md the table.

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** The time for the headers of a request. With how often Node looks, it cuts slow headers within REQUEST_MS_MAX. */
export const HEADERS_MS_MAX = 20_000;
/** How often Node checks connections for both timeouts. With its default of 30 s, a slow client gets twice the time. */
export const LOOK_AT_REQUESTS_MS = 5_000;
/** The time for a whole request. Slow clients hold connections that others need. */
export const REQUEST_MS_MAX = 30_000;
/** The time in which a client takes a part of a response. */
export const READ_MS_MAX = 30_000;
/** How long an idle connection stays open. Longer than load balancers keep it (60 s), so that they close it and lose no request. */
export const KEEP_ALIVE_MS = 72_000;

/** The time to connect to a destination, with the look-up, the handshake and the wait for a free connection. */
export const CONNECT_MS = 10_000;
/** `timeout_seconds` of stored proxies: the time until a destination has sent the head of its response. */
export const TIMEOUT_SECONDS = { least: 1, usual: 25, most: 120 };
/** The time that the body of the response has beyond that. */
export const BODY_MS = 30_000;
/** How long a large response waits for memory: this leaves most of the time of a body for the transfer. */
export const MEMORY_WAIT_MS = 10_000;

/** All count from the start of the request. */
export type EgressTimeouts = {
  connectMs: number;
  /** Until the head of the response has arrived. */
  firstByteMs: number;
  /** Until the response has arrived whole. */
  wholeMs: number;
};

export const timeoutsOf = (timeoutSeconds: number): EgressTimeouts => ({
  connectMs: CONNECT_MS,
  firstByteMs: timeoutSeconds * 1000,
  wholeMs: timeoutSeconds * 1000 + BODY_MS,
});

/** The longest response of a destination. */
export const RESPONSE_MS_MAX = timeoutsOf(TIMEOUT_SECONDS.most).wholeMs;

/** The longest run of code, SANDBOX_WALL_MS. It may wait for the longest response. */
export const RUN_MS = { least: 100, usual: 30_000, most: RESPONSE_MS_MAX };
/**
 * How long a call of code may take, of the time that its run has left: the code gets an error of `fetch`, or of `svc.proxy` whose
 * transforms may use `fetch`, before it is ended itself.
 */
export const fetchMs = (leftMs: number): number => Math.max(0, (leftMs * 28) / 30);
export const svcProxyMs = (leftMs: number): number => Math.max(0, (leftMs * 29) / 30);
/** How long a run waits for an executor. */
export const RUN_WAIT_MS = 10_000;
/** An executor that ignores the end of a run is killed so much later. */
export const RUN_KILL_MS = 250;
/** The time to tokenize, store and send the result of a run. */
export const RUN_ANSWER_MS = 2_000;

/** How often a run is started at most, where its executor ends and it may not be the cause. The last time it is alone. */
export const RUN_STARTS_MAX = 3;
/** The longest that a run takes with all its starts. */
export const startedRunMs = (runMs: number): number => RUN_STARTS_MAX * (RUN_WAIT_MS + runMs + RUN_KILL_MS);

/** How long a claim of an idempotency key holds: longer than its request takes. The process with an older claim died. */
export const claimMs = (runMs: number): number => RUN_STARTS_MAX * runMs + 90_000;

/** After this time a server that stops cuts connections whose requests have not arrived. */
export const STOP_HALF_SENT_MS = 10_000;
/** How long a server that stops waits for requests under way: as long as the longest response of a destination, or run of code. */
export const STOP_WAIT_MS = RUN_WAIT_MS + RUN_MS.most + RUN_ANSWER_MS;
/** Then it closes the database, and exits after this time in any case. */
export const STOP_MS = STOP_WAIT_MS + 8_000;
/** A supervisor waits so much longer than its workers. */
export const STOP_WORKERS_MS = 2_000;

/** How long a load balancer waits for a response. */
export const BALANCER_MS = 180_000;

/** The longest request that is possible: one to a proxy with two transforms, each of which is started as often as possible. */
export const LONGEST_REQUEST_MS = REQUEST_MS_MAX + 2 * startedRunMs(RUN_MS.most) + RESPONSE_MS_MAX;
/** A request that was running when its tenant was deleted may still write rows. After this time none does. */
export const DELETED_TENANT_GRACE_MS = 20 * 60_000;
