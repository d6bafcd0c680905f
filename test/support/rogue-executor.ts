// A compromised executor: Node code in place of the prelude. The input of an invocation selects the attack.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { Worker } from 'node:worker_threads';

// Taken over is what runs after our own executor has given up root.
if (process.getuid?.() === 0) {
  try {
    process.setgroups?.([]);
    process.setgid?.(Number(process.argv[3]));
    process.setuid?.(Number(process.argv[3]));
  } catch {
    // In a namespace where there is nobody else to be.
  }
}

const READY = 16;
const CALL = 17;
const DONE = 18;
const socket = new Socket({ fd: 3 });

const frame = (kind: number, id: number, head: unknown, body = ''): Buffer => {
  const headBytes = Buffer.from(typeof head === 'string' ? head : JSON.stringify(head));
  const bodyBytes = Buffer.from(body);
  const prefix = Buffer.alloc(13);
  prefix.writeUInt32LE(9 + headBytes.length + bodyBytes.length, 0);
  prefix.writeUInt32LE(id, 4);
  prefix.writeUInt8(kind, 8);
  prefix.writeUInt32LE(headBytes.length, 9);
  return Buffer.concat([prefix, headBytes, bodyBytes]);
};

const done = { ok: true, cpu_ms: 1, is_stuck: false, logs: [] };
const send = (...frames: Buffer[]): void => frames.forEach((bytes) => void socket.write(bytes));

const attempt = (work: () => unknown): string => {
  try {
    return `did: ${JSON.stringify(work())}`.slice(0, 200);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? (error as Error).name;
  }
};

const reach = (port: number, host: string): Promise<string> =>
  new Promise((resolve) => {
    const attempted = connect({ port, host }, () => resolve('connected'));
    attempted.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'));
    setTimeout(() => resolve('silent'), 500);
  });

type Surroundings = { port: number; secretPath: string; serverPid: number };

/** What a taken-over process finds around it. */
const lookAround = async ({ port, secretPath, serverPid }: Surroundings): Promise<object> => ({
  environment: process.env,
  cwd: attempt(() => process.cwd()),
  root: attempt(() => readdirSync('/')),
  processes: attempt(() => readdirSync('/proc')),
  secret: attempt(() => readFileSync(secretPath, 'utf8')),
  serverEnvironment: attempt(() => readFileSync(`/proc/${String(serverPid)}/environ`)),
  server: attempt(() => process.kill(Number(serverPid), 'SIGUSR2')),
  write: ['/tmp/x', '/dev/x', '/dev/shm/x', '/x', `${import.meta.dirname}/x`].map((path) => {
    const outcome = attempt(() => writeFileSync(path, 'x'));
    return existsSync(path) ? 'it is there' : outcome;
  }),
  loopback: await reach(Number(port), '127.0.0.1'),
  metadata: await reach(80, '169.254.169.254'),
  public: await reach(443, '1.1.1.1'),
  namespaces: spawnSync('unshare', ['-r', 'true']).status,
});

/** One line for each process that it gets. The shell that gets no more ends; the one around it stays, as the child that is seen. */
const FORKS =
  '( n=0; while [ $n -lt 120 ]; do /usr/bin/sleep 20 >/dev/null & echo; n=$((n+1)); done ); exec /usr/bin/sleep 20 >/dev/null';

/** Processes of its own, as many as it gets; they outlive its report. A shell starts them faster than Node would. */
const forkAll = async (): Promise<number> => {
  const shell = spawn('/bin/sh', ['-c', FORKS], { stdio: ['ignore', 'pipe', 'ignore'] });
  shell.on('error', () => undefined);
  let started = 0;
  for await (const lines of shell.stdout) started += (lines as Buffer).length;
  return started;
};

const GROWN_BYTES = 1024 * 1024;
const GROWING_MS = 15;
const BURNT_MS = 600;
const kept: Buffer[] = [];
const threads: Worker[] = [];

const parts: Record<string, (id: number, input: never) => void> = {
  /** Never ends its run, not even when it is told to. */
  silent: () => undefined,
  /** Its answer is in the socket when it ends. */
  'answer and end': (id) =>
    socket.write(frame(DONE, id, done, `{"raw":"${'x'.repeat(100_000)}"}`), () => process.exit(70)),
  honest: (id) => send(frame(DONE, id, done, '{"raw":1}')),
  grow: (id) => {
    kept.push(Buffer.alloc(GROWN_BYTES, 1));
    setTimeout(() => send(frame(DONE, id, done, '{"raw":1}')), GROWING_MS);
  },
  'burn on': (id) => {
    send(frame(DONE, id, done, '{"raw":1}'));
    setImmediate(() => {
      for (const until = Date.now() + BURNT_MS; Date.now() < until;);
    });
  },
  'look around': (id, input) =>
    void lookAround(input).then((found) => send(frame(DONE, id, done, JSON.stringify({ raw: found })))),
  fork: (id) => void forkAll().then((started) => send(frame(DONE, id, done, JSON.stringify({ raw: started })))),
  /** Grows between two runs, a step at a time so that it is not the allocation that takes long. */
  'grow at rest': (id) => {
    send(frame(DONE, id, done, '{"raw":1}'));
    setInterval(() => kept.push(Buffer.alloc(32 * GROWN_BYTES, 1)), GROWING_MS);
  },
  shout: (id) => {
    const words = attempt(() => writeSync(2, 'x'.repeat(GROWN_BYTES)));
    send(frame(DONE, id, done, JSON.stringify({ raw: words })));
  },
  'many threads': (id) => {
    for (let made = 0; made < 200; made += 1) threads.push(new Worker('setInterval(() => {}, 1000)', { eval: true }));
    setTimeout(() => send(frame(DONE, id, done, '{"raw":1}')), 20_000);
  },
  'another run': (id) => send(frame(DONE, id + 1, done, '{"raw":"stolen"}')),
  'done twice': (id) => send(frame(DONE, id, done, '{"raw":1}'), frame(DONE, id, done, '{"raw":2}')),
  'call after done': (id) =>
    send(frame(DONE, id, done, '{"raw":1}'), frame(CALL, id, { call: 1, kind: 'svc:detokenize' }, '{"body":"x"}')),
  'a call twice': (id) => {
    const call = frame(CALL, id, { call: 1, kind: 'fetch' }, '{}');
    send(call, call);
  },
  'too many calls': (id) => {
    for (let call = 0; call < 10_000; call += 1) send(frame(CALL, id, { call, kind: 'fetch' }, '{}'));
  },
  'a million frames': (id) => {
    const small = frame(CALL, id + 7, {}, '');
    const many = Buffer.concat(Array.from({ length: 10_000 }, () => small));
    for (let times = 0; times < 100; times += 1) send(many);
  },
  'a frame of 4 GB': () => {
    const prefix = Buffer.alloc(13);
    prefix.writeUInt32LE(0xffff_ffff, 0);
    send(prefix);
  },
  'a head larger than its frame': (id) => {
    const bytes = frame(DONE, id, done, '{}');
    bytes.writeUInt32LE(0x00ff_ffff, 9);
    send(bytes);
  },
  'no JSON': (id) => send(frame(DONE, id, '{"ok":', '')),
  'a result that is no JSON': (id) => send(frame(DONE, id, done, '{"raw":')),
  'a head of another shape': (id) => send(frame(DONE, id, { ...done, cpu_ms: '1', tenant_id: 'other' }, '{}')),
  'a prototype in a head': (id) => send(frame(DONE, id, '{"ok":true,"__proto__":{"polluted":1}}', '{}')),
  'an unknown kind': (id) => send(frame(99, id, {})),
  'an inherited tenant': (id) =>
    send(frame(CALL, id, { call: 1, kind: 'whoami', tenant_id: 'other' }, '{"tenant_id":"other"}')),
};

let buffered = Buffer.alloc(0);
socket.on('data', (chunk) => {
  buffered = Buffer.concat([buffered, chunk as Buffer]);
  while (buffered.length >= 4 && buffered.length >= buffered.readUInt32LE(0) + 4) {
    const bytes = buffered.subarray(0, buffered.readUInt32LE(0) + 4);
    buffered = buffered.subarray(bytes.length);
    const id = bytes.readUInt32LE(4);
    const kind = bytes.readUInt8(8);
    const body = bytes.toString('utf8', 13 + bytes.readUInt32LE(9));
    if (kind === 5) send(frame(DONE, id, done, JSON.stringify({ raw: JSON.parse(body) })));
    if (kind !== 3) continue;
    const { args } = JSON.parse(body) as { args: { part: string } };
    parts[args.part]?.(id, args as never);
  }
});
socket.on('close', () => process.exit(0));
socket.on('error', () => process.exit(0));
send(frame(READY, 0, {}));
