// Makes the sandbox of a configuration and reports its events to the operator.
import type { Config } from '../../config.ts';
import { StartError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { Accounts } from '../../accounts.ts';
import { RUN_BYTES_MAX, whyNoWall } from '../protocol/sandbox.ts';
import { createSandbox, type SandboxEvent } from './supervisor.ts';

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

export const openSandbox = (config: Config, log: Log, accounts: Accounts) => {
  const { wallKind, allowWeak, isolation, memoryTotalMb, wallMs, cpuMs, memoryMb } = config.sandbox;
  const limits = { wallMs, cpuMs, memoryMb, outputBytesMax: RUN_BYTES_MAX };
  return createSandbox({
    limits,
    isolation,
    wallKind,
    allowWeak,
    memoryTotalMb,
    callBytesMax: config.bodyBytesMax,
    accounts,
    report: sandboxReport(log, allowWeak),
  });
};

/** @throws StartError. */
export const startSandbox = (sandbox: { start(): Promise<void> }): Promise<void> =>
  sandbox.start().catch((error: unknown) => {
    throw new StartError(
      `The sandbox for the code of tenants does not start. If SANDBOX_JAIL names a wall that cannot stand here, mend the cause or set SANDBOX_JAIL=auto. The cause:\n${(error as Error).message}`,
    );
  });
