// Each time is shorter than what waits for it, so that the innermost error is the one that arrives. Examples of deployments agree.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as times from './times.ts';

const { timeoutsOf, TIMEOUT_SECONDS, RUN_MS } = times;

type Time = [what: string, ms: number];

const expectOrder = (order: readonly Time[]): void => {
  for (const [index, [what, ms]] of order.entries()) {
    const [inner, innerMs] = order[index - 1] ?? ['nothing', 0];
    expect(ms, `${what} is longer than ${inner}`).toBeGreaterThan(innerMs);
  }
};

test('what a request to a destination waits for, up to the load balancer', () => {
  const usual = timeoutsOf(TIMEOUT_SECONDS.usual);
  const most = timeoutsOf(TIMEOUT_SECONDS.most);
  expectOrder([
    ['a connection', times.CONNECT_MS],
    ['the head of a response, usually', usual.firstByteMs],
    ['a run of code, usually', RUN_MS.usual],
    ['a whole response, usually', usual.wholeMs],
    ['the head of a response, at most', most.firstByteMs],
    ['a whole response, at most', most.wholeMs],
    ['a server that stops', times.STOP_WAIT_MS],
    ['its process', times.STOP_MS],
    ['its supervisor', times.STOP_MS + times.STOP_WORKERS_MS],
    ['the load balancer', times.BALANCER_MS],
  ]);
  expect(times.MEMORY_WAIT_MS).toBeLessThan(times.BODY_MS);
});

test('what a run of code waits for, up to the claim of its request', () => {
  for (const ms of [RUN_MS.least, RUN_MS.usual, RUN_MS.most]) {
    const started = times.startedRunMs(ms);
    expect(started).toBe(times.RUN_STARTS_MAX * (times.RUN_WAIT_MS + ms + times.RUN_KILL_MS));
    expectOrder([
      ['a fetch of its code', times.fetchMs(ms)],
      ['svc.proxy of its code', times.svcProxyMs(ms)],
      ['a run', ms],
      ['an executor that ignores its end', ms + times.RUN_KILL_MS],
      ['a run with all its starts', started],
      ['with its request and response', started + times.REQUEST_MS_MAX + times.RUN_ANSWER_MS],
      ['the claim of an idempotency key', times.claimMs(ms)],
    ]);
  }
  // The longest run may wait for the head of any response, by either way.
  expect(times.fetchMs(RUN_MS.most)).toBeGreaterThan(timeoutsOf(TIMEOUT_SECONDS.most).firstByteMs);
  expect(times.fetchMs(-1)).toBe(0);
});

test('what a server that stops waits for', () => {
  expectOrder([
    ['a half-sent request', times.STOP_HALF_SENT_MS],
    ['the longest run', times.RUN_WAIT_MS + RUN_MS.most + times.RUN_KILL_MS],
    ['all requests', times.STOP_WAIT_MS],
    ['the database', times.STOP_MS],
  ]);
  expectOrder([
    ['the longest request', times.LONGEST_REQUEST_MS],
    ['rows of a deleted tenant', times.DELETED_TENANT_GRACE_MS],
  ]);
});

test('the connection of a client', () => {
  expectOrder([
    ['the headers of a request', times.HEADERS_MS_MAX],
    ['with how often Node looks', times.HEADERS_MS_MAX + times.LOOK_AT_REQUESTS_MS],
    ['a whole request', times.REQUEST_MS_MAX],
    ['an idle connection of common load balancers', 60_000],
    ['an idle connection', times.KEEP_ALIVE_MS],
  ]);
});

/** The seconds that a file gives for a name. */
const secondsIn = (file: string, name: RegExp): number => {
  const text = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
  const found = new RegExp(`${name.source}\\D{0,5}(\\d+)`).exec(text)?.[1];
  expect(found, `${file} has ${name.source}`).toBeDefined();
  return Number(found);
};

test('deployments give a server time to stop, and load balancers wait for responses', () => {
  const stopSeconds = (times.STOP_MS + times.STOP_WORKERS_MS) / 1000;
  const kubernetes = 'deploy/kubernetes/base/deployment.yaml';
  const drainSeconds = secondsIn('deploy/kubernetes/base/kustomization.yaml', /DRAIN_SECONDS/);
  expect(secondsIn(kubernetes, /terminationGracePeriodSeconds/)).toBeGreaterThan(drainSeconds + stopSeconds);
  expect(secondsIn('deploy/systemd/strongroom.service', /TimeoutStopSec/)).toBeGreaterThan(5 + stopSeconds);
  expect(secondsIn('deploy/compose/docker-compose.yml', /times\.md\)\.\s+stop_grace_period/)).toBeGreaterThan(
    5 + stopSeconds,
  );
  const balancerSeconds = times.BALANCER_MS / 1000;
  for (const side of ['client', 'server'])
    expect(secondsIn('deploy/high-availability/haproxy-front.cfg', new RegExp(`timeout ${side}`))).toBe(
      balancerSeconds,
    );
  const ingress = 'deploy/kubernetes/overlays/example/ingress.yaml';
  expect(secondsIn(ingress, /proxy-read-timeout/)).toBe(balancerSeconds);
});
