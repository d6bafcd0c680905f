// The table of times of docs/operations/times.md.
import {
  BALANCER_MS,
  BODY_MS,
  claimMs,
  CONNECT_MS,
  fetchMs,
  HEADERS_MS_MAX,
  KEEP_ALIVE_MS,
  MEMORY_WAIT_MS,
  READ_MS_MAX,
  REQUEST_MS_MAX,
  RESPONSE_MS_MAX,
  RUN_MS,
  RUN_STARTS_MAX,
  RUN_WAIT_MS,
  STOP_HALF_SENT_MS,
  STOP_MS,
  STOP_WAIT_MS,
  STOP_WORKERS_MS,
  svcProxyMs,
  TIMEOUT_SECONDS,
  timeoutsOf,
} from '../platform/base/times.ts';

const seconds = (ms: number): string => `${(ms / 1000).toLocaleString('en')} s`;

const { least, usual, most } = TIMEOUT_SECONDS;

const rows: readonly [what: string, time: string, after: string][] = [
  ['Headers of a request; the whole request', `${seconds(HEADERS_MS_MAX)}; ${seconds(REQUEST_MS_MAX)}`, '408'],
  ['A run waits for an executor', seconds(RUN_WAIT_MS), '429 or 503'],
  ['Connection to a destination', seconds(CONNECT_MS), '504'],
  [
    'Head of its response, from the start of the request',
    `${seconds(usual * 1000)}; \`timeout_seconds\` of a stored proxy, ${least} to ${most}`,
    '504',
  ],
  [
    'Whole response',
    `${seconds(BODY_MS)} more: ${seconds(timeoutsOf(usual).wholeMs)}, at most ${seconds(RESPONSE_MS_MAX)}`,
    'the response breaks off; 504 if a transform reads it',
  ],
  ['Memory for a response that a transform or code reads', seconds(MEMORY_WAIT_MS), '429 or 503'],
  ['A run of code, `SANDBOX_WALL_MS`', `${seconds(RUN_MS.usual)}, at most ${seconds(RUN_MS.most)}`, '408'],
  [
    '`fetch` in code; `svc.proxy`',
    `28/30 and 29/30 of what the run has left: ${seconds(fetchMs(RUN_MS.usual))}; ${seconds(svcProxyMs(RUN_MS.usual))}`,
    'an error that code can catch: `TIMEOUT`; 504',
  ],
  ['A client takes 64 KiB of a response, or its rest', seconds(READ_MS_MAX), 'the connection is closed'],
  ['An idle connection of a client', seconds(KEEP_ALIVE_MS), 'the connection is closed'],
  [
    'Claim of an idempotency key whose server died',
    `${seconds(claimMs(0))} and ${RUN_STARTS_MAX} runs: ${seconds(claimMs(RUN_MS.usual))}`,
    'the request may be repeated',
  ],
  ['A server that stops: half-sent requests', seconds(STOP_HALF_SENT_MS), 'cut'],
  ['A server that stops: requests under way', seconds(STOP_WAIT_MS), 'cut'],
  [
    'A server that stops: its process; its supervisor',
    `${seconds(STOP_MS)}; ${seconds(STOP_MS + STOP_WORKERS_MS)}`,
    'exit',
  ],
  ['The load balancer in front waits for a response', seconds(BALANCER_MS), '504 of its own'],
];

/** @returns a Markdown table: what has a time, how long, what happens after it. */
export const timesTable = (): string =>
  ['| What | Time | After it |', '|---|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n');
