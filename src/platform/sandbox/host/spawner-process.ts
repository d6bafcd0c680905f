// A small process that starts executors for the server, hands over their sockets, and reports how they end.
// A fork copies the page tables of its process: in a server of 400 MB it takes 90 ms, during which nothing is served.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Order, Report } from './spawner.ts';

/** Characters of standard error that are kept for the message of a failed start. */
const STDERR_CHARACTERS_MAX = 2000;

const children = new Map<number, ChildProcess>();

/** @param failed called if it was not sent, as when the server has gone meanwhile, which ends this process. */
const send = (report: Report, socket?: Socket, failed: () => void = () => undefined): void =>
  void process.send?.(report, socket, {}, (error: Error | null) => error && failed());

const start = (id: number, command: string, args: string[]): void => {
  const child = spawn(command, args, { cwd: '/', stdio: ['pipe', 'ignore', 'pipe', 'pipe'] });
  children.set(id, child);
  let words = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    if (words.length < STDERR_CHARACTERS_MAX) words += chunk.toString('latin1');
  });
  const end = (code: number | null, signal: NodeJS.Signals | null): void => {
    children.delete(id);
    send({ kind: 'ended', id, code, signal, words: words.trim().slice(0, STDERR_CHARACTERS_MAX) });
  };
  child.once('error', (error) => {
    // It was not started.
    words = error.message;
    if (child.pid === undefined) end(null, null);
  });
  child.once('exit', (code, signal) => {
    // After its output, which says why a start failed. `close` of the child would wait for the socket, which is elsewhere.
    if (!child.stderr || child.stderr.closed) end(code, signal);
    else child.stderr.once('close', () => end(code, signal));
  });
  // It may end before it has read.
  child.stdin?.on('error', () => undefined);
  // Without the report the server cannot use it: its end is reported instead.
  if (child.pid !== undefined)
    send({ kind: 'started', id, pid: child.pid }, child.stdio[3] as Socket, () => child.kill('SIGKILL'));
};

process.on('message', (order: Order) => {
  const child = children.get(order.id);
  switch (order.kind) {
    case 'start':
      return start(order.id, order.command, order.args);
    case 'go':
      // This process has closed its copy of the socket: it cannot take what the executor sends.
      return void child?.stdin?.end('\n');
    case 'ready':
      // Output after the start could come from tenants' code: it is not read.
      return void child?.stderr?.destroy();
    case 'kill':
      return void child?.kill('SIGKILL');
    default:
  }
});

// The server is gone. Executors end with this process, or when their sockets close.
process.on('disconnect', () => process.exit(0));
// A signal for all processes of a service lets the server finish the runs under way.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
