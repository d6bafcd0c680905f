// Gives runs of code a span, from their wait for an executor to their result.
import type { Tracing } from '../tracing/tracing.ts';
import type { SandboxOwner } from '../sandbox/host/supervisor.ts';

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
