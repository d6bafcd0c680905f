// Runs a server whose root key operators give as shares: sealed, unsealed by enough shares, and sealed again on request.
import cluster from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import type { DestinationStream } from 'pino';
import { type Config, withheldVariables } from './platform/config.ts';
import { collectShares, type ShareCollection } from './platform/crypto/share-collection.ts';
import { ShareFault } from './platform/crypto/key-shares.ts';
import { StartError } from './platform/errors.ts';
import { failureText } from './platform/failure-text.ts';
import { createLog, type Log } from './platform/log.ts';
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
/** Before the process that answers for the sealed vault is replaced. */
const RESPONDER_PAUSE_MS = 1_000;

/** Responses that are under way when the vault is unsealed have this time. */
const RESPONDER_STOP_MS = 5_000;

/** A server that runs: it is stopped, and closes what it has opened. */
export type Running = { log: Log; stop: Serving['stop'] };

type Responder = { stop(): Promise<void> };

/** Starts the process that answers while the vault is sealed. It has no secret. @throws StartError. */
const startResponder = async ({ host, port }: Config, log: Log): Promise<Responder> => {
  let isStopping = false;
  const launch = () => {
    cluster.setupPrimary({ stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const worker = cluster.fork(withheldVariables());
    const ended = new Promise<void>((resolve) => worker.process.once('close', () => resolve()));
    const ready = new Promise<void>((resolve, reject) => {
      worker.on('error', (error) => reject(error));
      worker.on('message', (message: unknown) => {
        const told = parseFromWorker(message);
        if (told.kind === 'ready') resolve();
        if (told.kind === 'failed') reject(new StartError(told.text));
      });
      void ended.then(() => reject(new StartError('The process that answers for the sealed vault has ended.')));
    });
    ready.catch(() => undefined);
    const message: ToWorker = { kind: 'start_sealed', host, port };
    worker.send(message, () => undefined);
    return { worker, ended, ready };
  };
  let current = launch();
  process.once('exit', () => current.worker.process.kill('SIGKILL'));
  await current.ready;
  const keep = async (): Promise<void> => {
    for (;;) {
      await current.ended;
      if (isStopping) return;
      log.error({ alarm: 'worker_ended', pid: current.worker.process.pid }, 'a worker ended');
      await pause(RESPONDER_PAUSE_MS, undefined, { ref: false });
      if (isStopping) return;
      current = launch();
    }
  };
  const kept = keep();
  return {
    async stop() {
      isStopping = true;
      // From here, and not by a message: the supervisor hands over no connection afterwards, and one that is on its way is
      // answered first. A process that exits while one is on its way would leave the client waiting.
      const { worker } = current;
      if (worker.isConnected()) worker.disconnect();
      const timer = setTimeout(() => worker.process.kill('SIGKILL'), RESPONDER_STOP_MS);
      await kept;
      clearTimeout(timer);
    },
  };
};

/** The configuration with the root keys, for a server as any other. */
const withKeys = (config: Config, [rootKey, ...previousRootKeys]: Buffer[]): Config => ({
  ...config,
  rootKey,
  previousRootKeys,
});

type Opened = { running: Running; keys: Buffer[] };

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
  let responder: Responder | undefined = await startResponder(config, log);
  let opened: Opened | undefined;
  const collection: ShareCollection = collectShares(config.keyShares);
  let dropTimer: NodeJS.Timeout | undefined;

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
    state = 'unsealing';
    let keys: Buffer[] = [];
    try {
      keys = await collection.combine();
      opened = { running: await open(withKeys(config, keys)), keys };
      state = 'unsealed';
      log.warn('the vault is unsealed');
      void responder?.stop();
      responder = undefined;
    } catch (error) {
      for (const key of keys) key.fill(0);
      state = 'sealed';
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
    await unseal();
    return { state: 'unsealed' };
  };

  /** Ends every process that has a key, then overwrites the keys of this one. */
  const seal = async (): Promise<void> => {
    if (!opened) return;
    const { running, keys } = opened;
    state = 'sealing';
    log.warn('the vault is being sealed');
    // First: new connections go to it while the workers end.
    responder = await startResponder(config, log);
    opened = undefined;
    try {
      await running.stop({ drains: false, killAfterMs: SEAL_MS });
    } catch (error) {
      // Its processes have ended nevertheless.
      log.error({ error }, 'a part of the server did not stop as it should');
    } finally {
      for (const key of keys) key.fill(0);
      state = 'sealed';
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
      drop('an operator asked for it');
      return progress();
    },
    seal: async () => {
      if (state !== 'unsealed') throw new StartError(`The vault is ${state}.`);
      await seal();
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
    'the vault is sealed: strongroom unseal takes a share',
  );

  return {
    log,
    async stop(how) {
      state = 'stopping';
      await closeSocket();
      drop('the server stops');
      await Promise.all([responder?.stop(), opened?.running.stop(how)]);
      for (const key of opened?.keys ?? []) key.fill(0);
    },
  };
};
