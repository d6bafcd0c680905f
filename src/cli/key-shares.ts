// The commands for shares of the root key: split, combine, unseal, seal; and the shares that other commands ask for.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { type Readable, Writable } from 'node:stream';
import { type CommandIo, UsageError } from './command.ts';
import type { Config } from '../platform/config/config.ts';
import { collectShares, type SharesGiven, splitRootKey } from '../platform/crypto/key-shares.ts';
import { randomBytesFromKernel } from '../platform/crypto/random.ts';
import { SHARES_MAX, THRESHOLD_LEAST } from '../platform/crypto/share-sets.ts';
import { findRootKeyBytes, ROOT_KEY_BYTES } from '../platform/keys/vault-keys.ts';
import { StartError } from '../platform/base/errors.ts';
import { askUnsealSocket } from '../unseal-socket.ts';

// Asks for a secret in the terminal without showing it; reads the passphrase of a key, also from a file.

/** Asks in the terminal, which does not show what is typed. @throws UsageError where nothing is given. */
const askHidden = async ({ openStdin, stderr }: CommandIo, question: string): Promise<string> => {
  stderr.write(question);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: openStdin(), output: silent, terminal: true });
  try {
    return await terminal.question('');
  } catch {
    throw new UsageError('Nothing was given.');
  } finally {
    terminal.close();
    stderr.write('\n');
  }
};

/** @throws UsageError for a file that cannot be read, or a process without a terminal. */
export const readPassphrase = async (io: CommandIo, file: string | undefined, keyFile: string): Promise<string> => {
  if (file !== undefined) {
    try {
      return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    } catch (error) {
      throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`);
    }
  }
  if (!io.openStdin().isTTY)
    throw new UsageError(
      `The key in ${keyFile} has a passphrase. Name a file that has it, by --passphrase-file FILE, or run the command in a terminal.`,
    );
  return askHidden(io, `Passphrase of ${keyFile}: `);
};

/** A share and its line end. More is no share. */
const INPUT_BYTES_MAX = 64 * 1_024;

/** Reads standard input, as lines that can be overwritten. */
const readLines = async (stdin: Readable): Promise<Buffer[]> => {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > INPUT_BYTES_MAX) throw new UsageError('Standard input has more than shares.');
  }
  const bytes = Buffer.concat(chunks);
  for (const chunk of chunks) chunk.fill(0);
  const lines: Buffer[] = [];
  for (let from = 0; from < bytes.length;) {
    const end = bytes.indexOf(0x0a, from);
    const line = bytes.subarray(from, end === -1 ? undefined : end);
    if (line.some((code) => code > 0x20)) lines.push(line);
    from = end === -1 ? bytes.length : end + 1;
  }
  return lines;
};

const progressText = (sets: readonly { set?: string | undefined; given: number; needed: number }[]): string =>
  sets
    .map(({ set, given, needed }) => `${given} of ${needed} shares${set === undefined ? '' : ` of set ${set}`}`)
    .join(', ');

/** Collects shares from the terminal, or as lines of standard input. @throws StartError. */
const collectKeys = async (io: CommandIo, wanted: Config['keyShares']): Promise<Buffer[]> => {
  const collection = collectShares(wanted);
  const stdin = io.openStdin();
  const lines = stdin.isTTY ? undefined : await readLines(stdin);
  while (!collection.isComplete()) {
    const line = lines
      ? lines.shift()
      : Buffer.from(await askHidden(io, `Share (${progressText(collection.given())}): `));
    if (line === undefined)
      throw new StartError(
        `This command needs the root key, and MASTER_KEY_SHARES says that it is split. Give the shares on standard input, one a line: ${progressText(collection.given())}.`,
      );
    try {
      collection.add(line);
    } catch (error) {
      // At a terminal the share can be given again.
      if (lines || !(error instanceof StartError)) throw error;
      io.say(error.message);
    }
  }
  return collection.combine();
};

/** A configuration with the root key: where it is split, the shares are asked for. */
export const withRootKey = async (io: CommandIo, config: Config): Promise<Config> => {
  if (config.keyShares.length === 0) return config;
  const [rootKey, ...previousRootKeys] = await collectKeys(io, config.keyShares);
  return { ...config, rootKey, previousRootKeys };
};

const wholeOption = (text: string | undefined, name: string, least: number): number => {
  const number = /^\d{1,3}$/.test(text ?? '') ? Number(text) : Number.NaN;
  if (number >= least && number <= SHARES_MAX) return number;
  throw new UsageError(`The option --${name} must be a whole number from ${least} to ${SHARES_MAX}.`);
};

type Split = { set: string; threshold: number; texts: string[] };

/** @param options.config undefined for a new key. @returns the shares, which are printed once. */
export const splitKey = async (
  io: CommandIo,
  options: {
    shares: string | undefined;
    threshold: string | undefined;
    config: Config | undefined;
  },
): Promise<Split> => {
  const threshold = wholeOption(options.threshold, 'threshold', THRESHOLD_LEAST);
  const shares = wholeOption(options.shares, 'shares', threshold);
  const existing = options.config && (await findRootKeyBytes(await withRootKey(io, options.config)));
  if (options.config && !existing)
    throw new StartError('There is no root key to split: set MASTER_KEY, or make a new key with --new.');
  const key = existing ?? randomBytesFromKernel(ROOT_KEY_BYTES);
  const { set, texts } = await splitRootKey(key, { shares, threshold }, randomBytesFromKernel);
  key.fill(0);
  return { set, threshold, texts };
};

export const sharesText = ({ set, threshold, texts }: Split): string => {
  const count = texts.length;
  const shares = texts.map((text, at) => `share ${at + 1} of ${count}\n${text}\n`).join('\n');
  return `Set ${set}: any ${threshold} of these ${count} shares make the root key. Give each to another person. They are shown once.\n\n${shares}\nThen set on all servers: MASTER_KEY_SHARES=${threshold}/${count}:${set}`;
};

/** @returns the root key in base64. */
export const combineKey = async (io: CommandIo, config: Config): Promise<string> => {
  if (config.keyShares.length === 0)
    throw new StartError('MASTER_KEY_SHARES is not set: it says how many shares there are, such as 2/3.');
  const [key, ...others] = await collectKeys(io, config.keyShares);
  const text = (key as Buffer).toString('base64');
  for (const each of [key, ...others]) each?.fill(0);
  return text;
};

const readShare = async (io: CommandIo): Promise<Buffer> => {
  const stdin = io.openStdin();
  if (stdin.isTTY) return Buffer.from(await askHidden(io, 'Share: '));
  const [share, surplus] = await readLines(stdin);
  if (share && !surplus) return share;
  throw new UsageError('Give one share on standard input, or run the command in a terminal.');
};

type State = { state: string; sets?: readonly Omit<SharesGiven, 'set'>[] };

export const stateText = ({ state, sets }: State): string =>
  state === 'sealed' ? `The vault is sealed: ${progressText(sets ?? [])}.` : `The vault is ${state}.`;

/** Gives a share to the running server, or asks it for its state. */
export const unseal = async (
  io: CommandIo,
  config: Config,
  how: { isDrop: boolean; isStatus: boolean },
): Promise<State> => {
  if (how.isDrop || how.isStatus) return askUnsealSocket(config.unsealSocket, how.isDrop ? 'drop' : 'status');
  // Before the share is asked for: no one should type it for a server that is not there.
  const { state } = await askUnsealSocket(config.unsealSocket, 'status');
  if (state !== 'sealed') throw new StartError(`The vault is ${state}: it needs no share.`);
  const share = await readShare(io);
  return askUnsealSocket(config.unsealSocket, 'share', share).finally(() => share.fill(0));
};

export const seal = (config: Config): Promise<State> => askUnsealSocket(config.unsealSocket, 'seal');
