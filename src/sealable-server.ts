// Runs a server whose root key operators give as shares: sealed, unsealed by enough shares, and sealed again on request.
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import type { DestinationStream } from 'pino';
import { type Config, withheldVariables } from './platform/config/config.ts';
import { collectShares, type ShareCollection, ShareFault } from './platform/crypto/key-shares.ts';
import { StartError } from './platform/base/errors.ts';
import { failureText } from './platform/services/open-database.ts';
import { createLog, type Log } from './platform/base/log.ts';
import type { Serving } from './serve.ts';
import { openUnsealSocket, type UnsealAnswer, type UnsealHandler } from './unseal-socket.ts';
import { parseFromWorker, type ToWorker } from './worker-messages.ts';

/**
 * A collection that was begun is dropped after this time. The operators of a ceremony give their shares within minutes; shares
 * of one that was given up must not wait in memory for the last one.
 */
const COLLECTION_MS = 15 * 60_000;
/** Requests that run when the vault is sealed have this time. Sealing is for emergencies. */
const SEAL_MS = 10_000;
/** Sealing waits so long for the process that answers for the sealed vault. */
const RESPONDER_START_MS = 10_000;
/** Before that process is replaced. */
const RESPONDER_PAUSE_MS = 1_000;
/** Responses that are under way when the vault is unsealed have this time. */
const RESPONDER_STOP_MS = 5_000;

/** A server that runs: it is stopped, and closes what it has opened. */
export type Running = {
  log: Log;
  /** @param how.afterServing called when nothing serves any more, before what was opened is closed. */
  stop(how: Parameters<Serving['stop']>[0] & { afterServing?(): void }): Promise<void>;
};

type Responder = {
  /** Rejects where its first process does not listen. */
  ready: Promise<void>;
  stop(): Promise<void>;
};

type Launched = { worker: Worker | undefined; ended: Promise<void>; ready: Promise<void> };

/** Starts the process that answers while the vault is sealed, and replaces it whenever it ends. It has no secret. */
const startResponder = ({ host, port }: Config, log: Log): Responder => {
  let isStopping = false;
  const fork = (): Launched => {
    cluster.setupPrimary({ stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const worker = cluster.fork(withheldVariables());
    const ended = new Promise<void>((resolve) => {
      worker.process.once('close', () => resolve());
      // Without a pid, the error is that of a process that could not be made.
      worker.process.once('error', () => worker.process.pid === undefined && resolve());
    });
    const ready = new Promise<void>((resolve, reject) => {
      worker.on('error', (error) => reject(error));
      worker.on('message', (message: unknown) => {
        const report = parseFromWorker(message);
        if (report.kind === 'ready') resolve();
        if (report.kind === 'failed') reject(new StartError(report.text));
      });
      void ended.then(() => reject(new StartError('The process that answers for the sealed vault has ended.')));
    });
    const message: ToWorker = { kind: 'start_sealed', host, port };
    worker.send(message, () => undefined);
    return { worker, ended, ready };
  };
  const launch = (): Launched => {
    let launched: Launched;
    try {
      launched = fork();
    } catch (error) {
      launched = { worker: undefined, ended: Promise.resolve(), ready: Promise.reject(error) };
    }
    launched.ready.catch(() => undefined);
    return launched;
  };
  let current = launch();
  const { ready } = current;
  const kill = (): void => void current.worker?.process.kill('SIGKILL');
  process.once('exit', kill);
  const keep = async (): Promise<void> => {
    for (;;) {
      await current.ended;
      if (isStopping) return;
      log.error({ alarm: 'worker_ended', pid: current.worker?.process.pid }, 'a worker ended');
      await pause(RESPONDER_PAUSE_MS, undefined, { ref: false });
      if (isStopping) return;
      current = launch();
    }
  };
  const kept = keep();
  return {
    ready,
    async stop() {
      isStopping = true;
      // From here, and not by a message: the supervisor hands over no connection afterwards, and one that is on its way is
      // answered first. A process that exits while one is on its way would leave the client waiting.
      if (current.worker?.isConnected()) current.worker.disconnect();
      const timer = setTimeout(kill, RESPONDER_STOP_MS);
      await kept;
      clearTimeout(timer);
      process.off('exit', kill);
    },
  };
};

/** The configuration with the root keys, for a server as any other. */
const withKeys = (config: Config, [rootKey, ...previousRootKeys]: Buffer[]): Config => ({
  ...config,
  rootKey,
  previousRootKeys,
});

/** @throws where the process does not listen in time. */
const inTime = async ({ ready }: Responder): Promise<void> => {
  const isReady = ready.then(() => true);
  if (await Promise.race([isReady, pause(RESPONDER_START_MS, false, { ref: false })])) return;
  throw new StartError('The process that answers for the sealed vault does not listen in time.');
};

type Opened = { running: Running; keys: Buffer[] };

const overwrite = (keys: readonly Buffer[]): void => {
  for (const key of keys) key.fill(0);
};

/**
 * Starts sealed. @param open starts the server with a configuration that has the root keys.
 * @throws StartError where the port or the socket cannot be had.
 */
export const startSealed = async (
  config: Config,
  output: DestinationStream,
  open: (config: Config) => Promise<Running>,
): Promise<Running> => {
  const log = createLog(config.logLevel, output);
  let state: 'sealed' | 'unsealing' | 'unsealed' | 'sealing' | 'stopping' = 'sealed';
  const firstResponder = startResponder(config, log);
  let responder: Responder | undefined = firstResponder;
  await firstResponder.ready.catch(async (error: unknown) => {
    await firstResponder.stop();
    throw error;
  });
  let opened: Opened | undefined;
  const collection: ShareCollection = collectShares(config.keyShares);
  let dropTimer: NodeJS.Timeout | undefined;
  /** The unsealing or sealing that runs. */
  let transition: Promise<void> = Promise.resolve();

  /** A server that stops does nothing else any more. */
  const become = (next: typeof state): void => {
    if (state !== 'stopping') state = next;
  };
  const drop = (why: string): void => {
    clearTimeout(dropTimer);
    if (collection.given().every(({ given }) => given === 0)) return;
    collection.drop();
    log.warn({ why }, 'the shares that were given are dropped');
  };
  const progress = (): UnsealAnswer => ({ state: 'sealed', sets: collection.given() });

  /** @throws what starting the server throws; the vault stays sealed. */
  const unseal = async (): Promise<void> => {
    clearTimeout(dropTimer);
    become('unsealing');
    let keys: Buffer[] = [];
    try {
      keys = await collection.combine();
      opened = { running: await open(withKeys(config, keys)), keys };
      become('unsealed');
      log.warn('the vault is unsealed');
      void responder?.stop();
      responder = undefined;
    } catch (error) {
      overwrite(keys);
      become('sealed');
      log.error({ error }, 'the vault was not unsealed, and all shares are dropped');
      throw error;
    }
  };

  const takeShare = async (text: Buffer): Promise<UnsealAnswer> => {
    try {
      const { set, index } = collection.add(text);
      log.warn({ set, index, sets: collection.given() }, 'a share of the root key was given');
    } catch (error) {
      if (error instanceof ShareFault) log.warn({ why: error.message }, 'a share was refused');
      throw error;
    }
    clearTimeout(dropTimer);
    dropTimer = setTimeout(() => drop('not all shares were given in time'), COLLECTION_MS).unref();
    if (!collection.isComplete()) return progress();
    const unsealing = unseal();
    transition = unsealing.catch(() => undefined);
    await unsealing;
    return { state: 'unsealed' };
  };

  /** Ends every process that has a key, then overwrites the keys of this one. */
  const seal = async (): Promise<void> => {
    if (!opened) return;
    const { running, keys } = opened;
    opened = undefined;
    become('sealing');
    log.warn('the vault is being sealed');
    // First: new connections go to it while the workers end. They end also where it does not listen: it is tried again.
    responder = startResponder(config, log);
    await inTime(responder).catch((error: unknown) =>
      log.error({ error }, 'the vault is sealed before anything answers for it'),
    );
    try {
      await running.stop({ drains: false, killAfterMs: SEAL_MS, afterServing: () => overwrite(keys) });
    } catch (error) {
      // Its processes have ended nevertheless.
      log.error({ error }, 'a part of the server did not stop as it should');
    } finally {
      overwrite(keys);
      become('sealed');
      log.warn('the vault is sealed');
    }
  };

  const handlers: Record<Parameters<UnsealHandler>[0], (text: Buffer) => Promise<UnsealAnswer>> = {
    status: async () => (state === 'sealed' || state === 'stopping' ? progress() : { state }),
    share: async (text) => {
      if (state !== 'sealed') throw new StartError(`The vault is ${state}: it needs no share.`);
      return takeShare(text);
    },
    drop: async () => {
      if (state !== 'sealed') throw new StartError(`The vault is ${state}: no share waits.`);
      drop('an operator asked for it');
      return progress();
    },
    seal: async () => {
      if (state !== 'unsealed') throw new StartError(`The vault is ${state}.`);
      transition = seal();
      await transition;
      return progress();
    },
  };
  const closeSocket = await openUnsealSocket(config.unsealSocket, async (request, text) => {
    try {
      return await handlers[request](text);
    } catch (error) {
      return { fault: failureText(error) };
    } finally {
      text.fill(0);
    }
  }).catch(async (error: unknown) => {
    await responder?.stop();
    throw error;
  });
  log.warn(
    { sets: collection.given(), socket: config.unsealSocket },
    'the vault is sealed: strongroom admin unseal takes a share',
  );

  return {
    log,
    async stop(how) {
      state = 'stopping';
      await closeSocket();
      // What it opens must be closed too.
      await transition.catch(() => undefined);
      drop('the server stops');
      const keys = opened?.keys ?? [];
      await Promise.all([
        responder?.stop(),
        opened?.running.stop({ ...how, afterServing: () => overwrite(keys) }),
      ]).finally(() => overwrite(keys));
    },
  };
};
