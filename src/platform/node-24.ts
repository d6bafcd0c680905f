// Each entry point calls this first: on an older Node it runs the same script with the Node that npm ci installed.
// Uses nothing that an older Node lacks.
import { spawn } from 'node:child_process';
import cluster from 'node:cluster';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

const NODE_MAJOR = 24;

/** The signals that ask a process to stop. */
export const ENDING_SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const;

/** A terminal and systemd send signals to every process of the group: a worker leaves them to its supervisor. */
export const ignoreSignalsInWorker = (): void => {
  if (cluster.isWorker) for (const signal of ENDING_SIGNALS) process.on(signal, () => undefined);
};

/** Whether another process does the work. Then this one waits for it and must not import modules that need Node 24. */
export const isHandedOver = (): boolean => {
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return false;
  const node = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url));
  const child = spawn(node, ['--disable-sigusr1', ...process.argv.slice(1)], { stdio: 'inherit' });
  for (const signal of ENDING_SIGNALS) process.on(signal, () => child.kill(signal));
  child.on('error', () => {
    console.error(
      `Node ${NODE_MAJOR} is needed, this is ${process.versions.node}, and the bundled one is missing: run npm ci without --omit=optional, or use Node ${NODE_MAJOR}.`,
    );
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : (code ?? 1)));
  return true;
};
