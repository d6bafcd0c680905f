// Three PostgreSQL nodes under Patroni and etcd behind HAProxy, on loopback, with the configurations in deploy/high-availability.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { freePort, killIfAlive, root } from '../../test/support/process.ts';

export const PROGRAMS = {
  postgres: '/usr/lib/postgresql/15/bin/postgres',
  patroni: '/usr/bin/patroni',
  etcd: '/usr/bin/etcd',
  haproxy: '/usr/sbin/haproxy',
  setpriv: '/usr/bin/setpriv',
};

const NODES = ['node1', 'node2', 'node3'] as const;
export type NodeName = (typeof NODES)[number];

/** Long enough for a copy of the data directory on a busy machine. */
const HEALTHY_TIMEOUT_MS = 180_000;
const POLL_MS = 200;
const PASSWORD = 'drill';

type Ports = { etcd: number; peers: number; patroni: number; postgres: number };
type Node = { name: NodeName; ports: Ports; dataDir: string; etcd?: ChildProcess; patroni?: ChildProcess };

/** What Patroni says of a member of the cluster. */
type Member = { name: NodeName; role: string; state: string; timeline?: number };

const configurations = join(root, 'deploy/high-availability');

/** Replaces parts of a configuration. @throws if it lacks one: the drill must run what the repository has. */
export const configurationWith = (file: string, replacements: Record<string, string>): string => {
  let text = readFileSync(join(configurations, file), 'utf8');
  for (const [part, by] of Object.entries(replacements)) {
    if (!text.includes(part)) throw new Error(`${file} has no ${part}`);
    text = text.replaceAll(part, by);
  }
  return text;
};

const environmentOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .split('\n')
      .filter((line) => /^[A-Z]/.test(line))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );

/** PostgreSQL does not run as root. @returns the arguments that start a program as the user `postgres`, where this is root. */
const asPostgres = (program: string, args: string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? [PROGRAMS.setpriv, ['--reuid', 'postgres', '--regid', 'postgres', '--init-groups', program, ...args]]
    : [program, args];

/** The user and group of a name in /etc/passwd. */
const idsOf = (name: string): [number, number] => {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((each) => each.startsWith(`${name}:`));
  if (!line) throw new Error(`there is no user ${name}`);
  const [, , user, group] = line.split(':').map(Number);
  return [user as number, group as number];
};

export const startCluster = async (directory: string) => {
  const own = (path: string): string => {
    if (!existsSync(path)) mkdirSync(path, { mode: 0o700 });
    if (process.getuid?.() === 0) chownSync(path, ...idsOf('postgres'));
    return path;
  };
  own(directory);
  chmodSync(directory, 0o755);
  const sockets = own(join(directory, 'sockets'));
  const nodes: Node[] = [];
  for (const name of NODES) {
    own(join(directory, name));
    const ports = {
      etcd: await freePort(),
      peers: await freePort(),
      patroni: await freePort(),
      postgres: await freePort(),
    };
    nodes.push({ name, ports, dataDir: join(directory, name, 'postgres') });
  }
  const get = (name: NodeName): Node => nodes.find((node) => node.name === name) as Node;
  const addressesOf = (kind: keyof Ports, port: number): Record<string, string> =>
    Object.fromEntries(nodes.map(({ ports }, index) => [`10.0.0.1${index + 1}:${port}`, `127.0.0.1:${ports[kind]}`]));

  const patroniPath = join(directory, 'patroni.yml');
  const patroni = configurationWith('patroni.yml', {
    ...addressesOf('etcd', 2379),
    '10.0.0.0/24': '127.0.0.0/8',
    '/var/run/postgresql': sockets,
    // This is no machine to reset.
    'mode: automatic': "mode: 'off'",
  });
  writeFileSync(patroniPath, patroni, { mode: 0o644 });

  const log = (node: Node, program: string): number => openSync(join(directory, `${node.name}-${program}.log`), 'a');
  const startEtcd = (node: Node): void => {
    const { name, ports } = node;
    const clients = `http://127.0.0.1:${ports.etcd}`;
    const peers = `http://127.0.0.1:${ports.peers}`;
    const environment = {
      ...environmentOf(configurationWith('etcd.env', addressesOf('peers', 2380))),
      ETCD_NAME: name,
      ETCD_DATA_DIR: join(directory, name, 'etcd'),
      ETCD_LISTEN_CLIENT_URLS: clients,
      ETCD_ADVERTISE_CLIENT_URLS: clients,
      ETCD_LISTEN_PEER_URLS: peers,
      ETCD_INITIAL_ADVERTISE_PEER_URLS: peers,
    };
    const out = log(node, 'etcd');
    node.etcd = spawn(...asPostgres(PROGRAMS.etcd, []), { env: environment, stdio: ['ignore', out, out] });
  };
  const startPatroni = (node: Node): void => {
    const { name, ports } = node;
    const environment = {
      ...environmentOf(configurationWith('patroni.env', { 'change-me': PASSWORD })),
      PATH: '/usr/bin:/bin',
      HOME: join(directory, name),
      LANG: 'C.UTF-8',
      PATRONI_NAME: name,
      PATRONI_RESTAPI_LISTEN: `127.0.0.1:${ports.patroni}`,
      PATRONI_RESTAPI_CONNECT_ADDRESS: `127.0.0.1:${ports.patroni}`,
      PATRONI_POSTGRESQL_LISTEN: `127.0.0.1:${ports.postgres}`,
      PATRONI_POSTGRESQL_CONNECT_ADDRESS: `127.0.0.1:${ports.postgres}`,
      PATRONI_POSTGRESQL_DATA_DIR: node.dataDir,
      PATRONI_POSTGRESQL_PGPASS: join(directory, name, 'pgpass'),
    };
    const out = log(node, 'patroni');
    node.patroni = spawn(...asPostgres(PROGRAMS.patroni, [patroniPath]), {
      env: environment,
      stdio: ['ignore', out, out],
    });
  };

  /** The members as a living node sees them. */
  const members = async (): Promise<Member[]> => {
    for (const { ports } of nodes) {
      const response = await fetch(`http://127.0.0.1:${ports.patroni}/cluster`).catch(() => undefined);
      if (response?.ok) return ((await response.json()) as { members: Member[] }).members;
    }
    return [];
  };
  const leaderOf = (all: Member[]): NodeName | undefined => all.find(({ role }) => role === 'leader')?.name;

  /**
   * Waits until the cluster has a leader, a synchronous standby and a third node, all on one timeline: a former leader that
   * still rewinds needs its source, and the loss of that one is another test. @returns the leader.
   */
  const untilHealthy = async (formerLeader?: NodeName): Promise<NodeName> => {
    const deadline = Date.now() + HEALTHY_TIMEOUT_MS;
    for (;;) {
      const all = await members();
      const leader = leaderOf(all);
      const healthy =
        all.length === NODES.length &&
        all.every(({ state }) => state === 'running' || state === 'streaming') &&
        new Set(all.map(({ timeline }) => timeline)).size === 1 &&
        all.some(({ role }) => role === 'sync_standby');
      if (leader && leader !== formerLeader && healthy) return leader;
      for (const { name, etcd, patroni } of nodes)
        if ((etcd?.exitCode ?? patroni?.exitCode ?? null) !== null) throw new Error(`a program of ${name} ended`);
      if (Date.now() > deadline) throw new Error(`the cluster did not recover: ${JSON.stringify(all)}`);
      await pause(POLL_MS);
    }
  };

  const untilLed = async (formerLeader: NodeName): Promise<NodeName> => {
    const deadline = Date.now() + HEALTHY_TIMEOUT_MS;
    for (;;) {
      const leader = leaderOf(await members());
      if (leader && leader !== formerLeader) return leader;
      if (Date.now() > deadline) throw new Error(`no node was promoted after ${formerLeader}`);
      await pause(POLL_MS);
    }
  };

  const postmasterOf = (node: Node): number | undefined => {
    const path = join(node.dataDir, 'postmaster.pid');
    return existsSync(path) ? Number(readFileSync(path, 'utf8').split('\n')[0]) : undefined;
  };
  const killPostgres = (node: Node): void => {
    const pid = postmasterOf(node);
    if (pid) killIfAlive(pid);
  };
  const killNode = async (node: Node): Promise<void> => {
    const ended = [node.patroni, node.etcd].map(async (child) => {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    });
    killPostgres(node);
    await Promise.all(ended);
  };

  const stop = async (): Promise<void> => void (await Promise.all(nodes.map(killNode)));
  const query = async (port: number, user: string, database: string, sql: string): Promise<void> => {
    const client = new Client({ host: '127.0.0.1', port, user, password: PASSWORD, database });
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  };

  try {
    for (const node of nodes) startEtcd(node);
    for (const node of nodes) startPatroni(node);
    const leader = await untilHealthy();
    const { postgres } = get(leader).ports;
    await query(postgres, 'postgres', 'postgres', `CREATE ROLE strongroom LOGIN PASSWORD '${PASSWORD}'`);
    await query(postgres, 'postgres', 'postgres', 'CREATE DATABASE strongroom OWNER strongroom');
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    untilHealthy,
    untilLed,
    stop,
    user: 'strongroom',
    password: PASSWORD,
    /** The configuration of HAProxy in front of the nodes. */
    haproxy: (port: number): string => {
      const checks = nodes.map(({ ports }, index): [string, string] => [
        `10.0.0.1${index + 1}:5432 check port 8008`,
        `127.0.0.1:${ports.postgres} check port ${ports.patroni}`,
      ]);
      return configurationWith('haproxy-database.cfg', {
        'bind 127.0.0.1:5000': `bind 127.0.0.1:${port}`,
        ...Object.fromEntries(checks),
      });
    },
    switchover: async (leader: NodeName): Promise<void> => {
      const response = await fetch(`http://127.0.0.1:${get(leader).ports.patroni}/switchover`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`patroni:${PASSWORD}`)}`, 'content-type': 'application/json' },
        body: JSON.stringify({ leader }),
      });
      if (!response.ok) throw new Error(`the switchover failed: ${await response.text()}`);
    },
    killPostgres: (name: NodeName): void => killPostgres(get(name)),
    killNode: (name: NodeName): Promise<void> => killNode(get(name)),
    /** Starts what systemd starts after the machine has booted. */
    startNode: (name: NodeName): void => {
      startEtcd(get(name));
      startPatroni(get(name));
    },
  };
};

export type Cluster = Awaited<ReturnType<typeof startCluster>>;
