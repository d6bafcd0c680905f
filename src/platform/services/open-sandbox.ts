// Makes the sandbox of a configuration and reports its events to the operator.
import type { Tracing } from '../tracing/tracing.ts';
import { createSandbox, type SandboxEvent, type SandboxOwner } from '../sandbox/host/supervisor.ts';
import type { Config } from '../config/config.ts';
import { StartError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Accounts } from '../base/accounts.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { RUN_BYTES_MAX, type RunFault, whyNoWall } from '../sandbox/protocol/sandbox.ts';

// Gives runs of code a span, from their wait for an executor to their result.

/** The same sandbox, with a span for each run. What the code calls is done within the span of its run. */
export const tracedSandbox = (sandbox: SandboxOwner, tracing: Tracing | undefined): SandboxOwner =>
  tracing
    ? {
        ...sandbox,
        get wall() {
          return sandbox.wall;
        },
        run: (job) =>
          tracing.hop('run', 'internal', {}, async (span) => {
            // Calls arrive by the pipe of an executor, which serves many runs.
            const outcome = await sandbox.run({ ...job, answerCall: tracing.bind(job.answerCall) });
            const result = outcome.ok ? 'ok' : outcome.fault.code.toLowerCase();
            span?.set({ 'strongroom.run.result': result, 'strongroom.run.cpu_ms': outcome.cpuMs });
            return outcome;
          }),
      }
    : sandbox;

const MEBIBYTE = 1024 * 1024;

/** Logs events of the sandbox. Missing isolation and a breach of the protocol are alarms; the end of one executor is not. */
const sandboxReport = (log: Log, allowWeak: boolean) => (event: SandboxEvent) => {
  if (event.event === 'no_wall')
    log.warn(
      { alarm: 'no_wall', wall: event.wall.name, causes: event.wall.causes },
      `no wall stands around the code of tenants: ${whyNoWall(event.wall)}. ${
        allowWeak
          ? 'Code runs without one: code that escapes V8 can read what this server reads'
          : 'No code runs: reactors and transforms answer 503. Fix this, or set SANDBOX_ALLOW_WEAK=1'
      }`,
    );
  else if (event.event === 'violation')
    log.error({ alarm: 'sandbox_violation', ...event }, 'an executor broke the protocol');
  else if (event.event === 'started')
    log.info({ wall: event.wall.name, causes: event.wall.causes }, 'the sandbox is ready');
  else log.warn(event, 'sandbox');
};

const readSandbox = (metrics: Metrics, { executors, waiting }: SandboxOwner, memoryTotalMb: number): void => {
  const sum = (figure: (executor: ReturnType<SandboxOwner['executors']>[number]) => number): number =>
    executors().reduce((total, executor) => total + figure(executor), 0);
  // There from the start: an alert compares with what was before.
  for (const reason of ['violation', 'memory', 'died'])
    metrics.count('strongroom_executors_ended_total', { reason }, 0);
  metrics.read('strongroom_queue_length', () => [[{ queue: 'runs' }, waiting()]]);
  metrics.read('strongroom_runs_active', () => [[{}, sum(({ runs }) => runs)]]);
  metrics.read('strongroom_executors', () => [
    [{ state: 'busy' }, sum(({ runs }) => Number(runs > 0))],
    [{ state: 'idle' }, sum(({ runs, tenant_id }) => Number(runs === 0 && tenant_id !== undefined))],
    [{ state: 'spare' }, sum(({ tenant_id }) => Number(tenant_id === undefined))],
  ]);
  metrics.read('strongroom_executor_memory_bytes', () => [[{}, sum(({ memoryMb }) => memoryMb) * MEBIBYTE]]);
  metrics.read('strongroom_executor_memory_max_bytes', () => [[{}, memoryTotalMb * MEBIBYTE]]);
};

/** Counts what becomes of runs and checks. */
const counted = (sandbox: SandboxOwner, metrics: Metrics): SandboxOwner => {
  const count = (kind: 'run' | 'check', fault: RunFault | undefined): void =>
    metrics.count('strongroom_executions_total', { kind, result: fault ? fault.code.toLowerCase() : 'ok' });
  return {
    ...sandbox,
    get wall() {
      return sandbox.wall;
    },
    run: async (job) => {
      const outcome = await sandbox.run(job);
      count('run', outcome.ok ? undefined : outcome.fault);
      metrics.observe('strongroom_run_seconds', {}, outcome.wallMs / 1000);
      return outcome;
    },
    check: async (tenant_id, code) => {
      const fault = await sandbox.check(tenant_id, code);
      count('check', fault);
      return fault;
    },
  };
};

export const openSandbox = (config: Config, log: Log, accounts: Accounts, metrics: Metrics): SandboxOwner => {
  const { wallKind, allowWeak, isolation, memoryTotalMb, wallMs, cpuMs, memoryMb } = config.sandbox;
  const limits = { wallMs, cpuMs, memoryMb, outputBytesMax: RUN_BYTES_MAX };
  const report = sandboxReport(log, allowWeak);
  const sandbox = createSandbox({
    limits,
    isolation,
    wallKind,
    allowWeak,
    memoryTotalMb,
    callBytesMax: config.bodyBytesMax,
    accounts,
    report: (event) => {
      if (event.event === 'killed') metrics.count('strongroom_executors_ended_total', { reason: event.reason });
      if (event.event === 'violation') metrics.count('strongroom_executors_ended_total', { reason: 'violation' });
      report(event);
    },
  });
  readSandbox(metrics, sandbox, memoryTotalMb);
  return counted(sandbox, metrics);
};

/** @throws StartError. */
export const startSandbox = (sandbox: { start(): Promise<void> }): Promise<void> =>
  sandbox.start().catch((error: unknown) => {
    throw new StartError(
      `The sandbox for the code of tenants does not start. If SANDBOX_JAIL names a wall that cannot stand here, mend the cause or set SANDBOX_JAIL=auto. The cause:\n${(error as Error).message}`,
    );
  });
