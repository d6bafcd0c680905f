// Each entry point calls this first: on an older Node it runs the same script with the Node that npm ci installed.
// Uses nothing that an older Node lacks.
import { spawn } from 'node:child_process';
import cluster from 'node:cluster';
import { createRequire } from 'node:module';
import { constants } from 'node:os';

const NODE_MAJOR = 24;

/** The signals that ask a process to stop. */
export const ENDING_SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const;

/** A terminal and systemd send signals to every process of the group: a worker leaves them to its supervisor. */
export const ignoreSignalsInWorker = (): void => {
  if (cluster.isWorker) for (const signal of ENDING_SIGNALS) process.on(signal, () => undefined);
};

/** The program of the optional package, in this project's node_modules or in one above it; undefined if it is missing. */
const findBundledNode = (): string | undefined => {
  try {
    return createRequire(import.meta.url).resolve(`node-linux-${process.arch}/bin/node`);
  } catch {
    return undefined;
  }
};

/** Whether another process does the work. Then this one waits for it and must not import modules that need Node 24. */
export const isHandedOver = (): boolean => {
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return false;
  const node = findBundledNode();
  const fail = (): never => {
    console.error(
      `Node ${NODE_MAJOR} is needed, this is ${process.versions.node}, and the bundled one is missing: install without --omit=optional, or use Node ${NODE_MAJOR}.`,
    );
    process.exit(1);
  };
  if (node === undefined) return fail();
  const child = spawn(node, ['--disable-sigusr1', ...process.argv.slice(1)], { stdio: 'inherit' });
  for (const signal of ENDING_SIGNALS) process.on(signal, () => child.kill(signal));
  child.on('error', fail);
  child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : (code ?? 1)));
  return true;
};
