// A process under the real watchdog whose event loop is used in one of several ways.
// Arguments: the limit in ms of CPU time of one turn, the way, and how long it is used.
import { setTimeout as pause } from 'node:timers/promises';
import { startWatchdog } from '../../src/platform/base/watchdog.ts';

const [limit, way, duration] = process.argv.slice(2);
const durationMs = Number(duration);

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

const spin = (ms: number): void => {
  for (const from = cpuMs(); cpuMs() - from < ms;);
};

startWatchdog({ turnCpuMsMax: Number(limit) });
// The thread is there by then.
await pause(500);
process.stdout.write('begins\n');
await pause(100);

// All of it in one turn.
if (way === 'spins') spin(durationMs);
// Promises that follow each other are one turn as well.
if (way === 'spins in promises') for (const from = cpuMs(); cpuMs() - from < durationMs;) await Promise.resolve();
// As much in many turns.
if (way === 'turns') for (const from = cpuMs(); cpuMs() - from < durationMs;) await pause(1).then(() => spin(20));
// One turn that takes long and uses nothing.
if (way === 'sleeps') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, durationMs);

process.stdout.write('ends\n');
