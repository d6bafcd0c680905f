// Runs the PKCS #11 library in a process of its own, which is replaced when it crashes, hangs, or loses its session.
import { fork } from 'node:child_process';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '../../base/errors.ts';
import { formatNamed, type KeyProvider, parseWrapped, RootKeyUnknown } from '../key-provider.ts';
import { bindToContext, contextBytes, createKeyService, KeyServiceFault, noAnswer, unbind } from '../key-service.ts';
import type { Fault, Opening, Reply, WrapRequest } from './messages.ts';
import { GCM_IV_BYTES, GCM_TAG_BYTES } from './library.ts';
import type { RandomBytes } from '../random.ts';
import { SealBroken } from '../seal.ts';

// The key provider of HSMs, by PKCS #11: AES-256-GCM with keys that do not leave the token.

export type Pkcs11Config = Opening & {
  /** Variables for the library. */
  environment: Record<string, string>;
};

const NAME = 'pkcs11';

/** @throws StartError: without an open token the keys have no ids. */
const openKeys = async (client: Pkcs11Client): Promise<string[]> => {
  try {
    return await client.open();
  } catch (error) {
    client.close();
    if (error instanceof TokenUnusable)
      throw new StartError(`${error.message} Nothing was written. See docs/operations/keys.md`, {
        isFinal: error instanceof PinRefused,
      });
    if (!(error instanceof KeyServiceFault)) throw error;
    throw new StartError(
      `The key provider ${NAME} ${error.message}. Nothing was written. Check PKCS11_MODULE and the HSM: docs/operations/keys.md`,
    );
  }
};

/** @returns a provider for each key, the one that wraps first. They share a process and its session. */
export const pkcs11Providers = async (
  { environment, ...opening }: Pkcs11Config,
  randomBytes: RandomBytes,
): Promise<KeyProvider[]> => {
  const client = createPkcs11Client(opening, environment);
  const root_key_ids = await openKeys(client);
  const service = createKeyService();
  return root_key_ids.map((root_key_id, key) => ({
    describe: () => ({ name: NAME, root_key_id }),
    isAvailable: () => service.isAvailable(),
    wrap: (secret, context) =>
      service.call(async (signal) => {
        const [iv, data] = [randomBytes(GCM_IV_BYTES), bindToContext(secret, context)];
        try {
          const encrypted = await client.send({ action: 'encrypt', key, iv, aad: contextBytes(context), data }, signal);
          return formatNamed({ name: NAME, root_key_id, version: '', body: Buffer.concat([iv, encrypted]) });
        } finally {
          data.fill(0);
        }
      }),
    unwrap: async (wrapped, context) => {
      const { root_key_id: needed, body } = parseWrapped(wrapped);
      if (needed !== root_key_id) throw new RootKeyUnknown(needed, [root_key_id]);
      if (body.length < GCM_IV_BYTES + GCM_TAG_BYTES) throw new SealBroken();
      const [iv, data] = [body.subarray(0, GCM_IV_BYTES), body.subarray(GCM_IV_BYTES)];
      return service.call(async (signal) =>
        unbind(await client.send({ action: 'decrypt', key, iv, aad: contextBytes(context), data }, signal), context),
      );
    },
    close: () => client.close(),
  }));
};

/** Libraries of clusters of HSMs reach all members before they are ready. */
const OPEN_MS = 30_000;
/** Time to close the session. */
const CLOSE_MS = 1_000;

const here = fileURLToPath(import.meta.url);
const processPath = `${dirname(here)}/process${extname(here)}`;
/** It holds a few small objects. */
const nodeOptions = ['--disable-sigusr1', '--no-deprecation', '--max-semi-space-size=1', '--v8-pool-size=1'];

/** The token cannot be opened until the configuration or the token is changed. The message is for the operator. */
class TokenUnusable extends Error {
  override readonly name = 'TokenUnusable';
}

/** The PIN is not tried again: tokens lock after some wrong PINs. */
class PinRefused extends TokenUnusable {}

export type Pkcs11Client = {
  /** The ids of the keys. @throws TokenUnusable; KeyServiceFault. */
  open(): Promise<string[]>;
  /** @throws SealBroken; KeyServiceFault. */
  send(request: Omit<WrapRequest, 'id'>, signal: AbortSignal): Promise<Buffer>;
  close(): void;
};

type TokenProcess = {
  root_key_ids: string[];
  send(request: Omit<WrapRequest, 'id'>, signal: AbortSignal): Promise<Buffer>;
  /** Lets it close its session, and kills it if it does not. */
  end(): void;
};

const errorOf = ({ kind, text }: Fault): Error => {
  if (kind === 'broken') return new SealBroken();
  if (kind === 'pin') return new PinRefused(text);
  if (kind === 'setup') return new TokenUnusable(text);
  return new KeyServiceFault(text, kind === 'failed');
};

type Start = {
  opening: Opening;
  env: Record<string, string>;
  /** Ends the process, also before it is open. */
  closing: AbortSignal;
};

type Waiting = { resolve: (reply: Reply) => void; reject: (error: Error) => void };

/** @param lost called once, when the process can no longer be used. */
const startProcess = async ({ opening, env, closing }: Start, lost: () => void): Promise<TokenProcess> => {
  // What a library prints is not read: it may have secrets.
  const child = fork(processPath, {
    env,
    execArgv: nodeOptions,
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const waiting = new Map<number, Waiting>();
  let nextId = 1;
  let answers = 0;
  let isLost = false;

  /** It keeps the server's process from ending only while a caller waits. */
  const holdWhileWaiting = (): void => {
    if (waiting.size > 0) [child, child.channel].forEach((each) => each?.ref());
    else [child, child.channel].forEach((each) => each?.unref());
  };
  const lose = (error: Error): void => {
    if (!isLost) lost();
    isLost = true;
    closing.removeEventListener('abort', end);
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
    holdWhileWaiting();
  };
  const end = (): void => {
    lose(noAnswer());
    if (child.connected) child.disconnect();
    setTimeout(() => child.kill('SIGKILL'), CLOSE_MS).unref();
  };
  const kill = (): void => {
    lose(noAnswer());
    child.kill('SIGKILL');
  };

  closing.addEventListener('abort', end, { once: true });

  child.on('message', (reply: Reply) => {
    answers += 1;
    waiting.get(reply.id)?.resolve(reply);
    waiting.delete(reply.id);
    holdWhileWaiting();
  });
  child.on('error', (error) => lose(noAnswer(error)));
  child.on('exit', (code, signal) =>
    lose(new KeyServiceFault(`ended its process (${signal ?? `exit code ${code}`})`, true)),
  );

  const ask = (message: Opening | WrapRequest): Promise<Reply> =>
    new Promise((resolve, reject) => {
      if (isLost) return reject(noAnswer());
      waiting.set('id' in message ? message.id : 0, { resolve, reject });
      holdWhileWaiting();
      child.send(message, (error) => error && lose(noAnswer(error)));
    });

  const late = setTimeout(kill, OPEN_MS);
  const opened = await ask(opening).finally(() => clearTimeout(late));
  if (!('root_key_ids' in opened)) {
    end();
    throw 'fault' in opened ? errorOf(opened.fault) : noAnswer();
  }

  return {
    root_key_ids: opened.root_key_ids,
    end,
    async send(request, signal) {
      // The token took longer to open than the attempt lasts.
      if (signal.aborted) throw noAnswer();
      const id = nextId;
      nextId += 1;
      const answersBefore = answers;
      // Others may wait before this one. If none was answered meanwhile, the library hangs.
      const giveUp = (): void => {
        if (answers === answersBefore) kill();
      };
      signal.addEventListener('abort', giveUp, { once: true });
      const reply = await ask({ ...request, id }).finally(() => signal.removeEventListener('abort', giveUp));
      if ('result' in reply) {
        // Not a copy: the caller overwrites it.
        const { buffer, byteOffset, byteLength } = reply.result;
        return Buffer.from(buffer, byteOffset, byteLength);
      }
      if (!('fault' in reply)) throw noAnswer();
      // The session, the login, or the device is gone. The next call starts another process, which logs in again.
      if (reply.fault.kind === 'failed') end();
      throw errorOf(reply.fault);
    },
  };
};

const createPkcs11Client = (opening: Opening, env: Record<string, string>): Pkcs11Client => {
  let current: Promise<TokenProcess> | undefined;
  let root_key_ids: string[] | undefined;
  let refused: PinRefused | undefined;
  const closing = new AbortController();

  const connect = (): Promise<TokenProcess> => {
    if (refused) throw refused;
    if (closing.signal.aborted) throw noAnswer();
    const forget = (): void => {
      if (current === starting) current = undefined;
    };
    const starting = startProcess({ opening, env, closing: closing.signal }, forget).catch((error: unknown) => {
      forget();
      if (error instanceof PinRefused) refused = error;
      throw error;
    });
    current = starting;
    return starting;
  };

  /** @throws KeyServiceFault where a label names another key now. */
  const checkIds = (opened: TokenProcess): void => {
    const changed = root_key_ids?.findIndex((each, index) => each !== opened.root_key_ids[index]) ?? -1;
    if (changed < 0) return;
    opened.end();
    throw new KeyServiceFault(`has another key with the label ${opening.keys[changed]} than at the start`, false);
  };

  return {
    async open() {
      ({ root_key_ids } = await (current ?? connect()));
      return root_key_ids;
    },
    async send(request, signal) {
      let opened: TokenProcess;
      try {
        opened = await (current ?? connect());
      } catch (error) {
        if (error instanceof TokenUnusable)
          // A token that is not there may come back; a PIN that was refused is not tried again.
          throw new KeyServiceFault(`cannot be opened: ${error.message}`, !(error instanceof PinRefused), error);
        throw error;
      }
      checkIds(opened);
      return opened.send(request, signal);
    },
    close: () => closing.abort(),
  };
};
