// The commands that write: an encrypted backup of the vault, and the list of what was deleted.
import { pipeline, Readable } from 'node:stream';
import { constants, createGzip } from 'node:zlib';
import { dumpTables, type Manifest, type Progress } from '../platform/db/backup/dump.ts';
import { createAccounts } from '../platform/base/accounts.ts';
import { createMetrics } from '../platform/metrics/metrics.ts';
import type { Config } from '../platform/config/config.ts';
import { createAgeEncryption } from '../platform/crypto/age-file.ts';
import { memoryDigest } from '../platform/crypto/digest.ts';
import { type KeyProvider, parseWrapped } from '../platform/crypto/key-provider.ts';
import { createKeyRows } from '../platform/keys/rows.ts';
import { environmentOf, openVault } from '../platform/keys/vault-keys.ts';
import { codeOf, inSession } from '../platform/db/backup/session.ts';
import { KEPT_TABLES } from '../platform/base/tables.ts';
import { StartError } from '../platform/base/errors.ts';
import { createLog } from '../platform/base/log.ts';
import { checkNewFile, writeNewFile } from '../platform/base/files.ts';
import { closeAll, noVault, openDatabase, type Start } from '../platform/services/open-database.ts';
import { version } from '../platform/base/version.ts';
import type { CommandIo } from './command.ts';

// Reports the progress of a backup or restore on standard error, a line now and then.

/** Often enough to see that it goes on, and seldom enough for a log. */
const REPORT_EVERY_MS = 5_000;

const MEBIBYTE = 1024 * 1024;

/** A number of bytes as an operator reads it. */
export const mebibytes = (bytes: number): string => `${(bytes / MEBIBYTE).toFixed(1)} MiB`;

const VERBS = { counting: 'Counting', writing: 'Writing', restoring: 'Restoring' } as const;

/** @returns a function that prints how far it is: each phase at its start, then every few seconds. */
export const createProgress = (print: (line: string) => void): Progress => {
  let phase: string | undefined;
  let dueMs = 0;
  return (current, bytes, ofBytes) => {
    const nowMs = performance.now();
    if (current === phase && nowMs < dueMs) return;
    phase = current;
    dueMs = nowMs + REPORT_EVERY_MS;
    print(`${VERBS[current]}: ${mebibytes(bytes)}${ofBytes === undefined ? '' : ` of ${mebibytes(ofBytes)}`}`);
  };
};

type DumpKind = Pick<Manifest, 'strongroom' | 'environment'>;

/** What the seal of a manifest is bound to. */
const sealContext = (manifest: DumpKind): string[] => ['dump', manifest.environment, manifest.strongroom];

const digestOf = (head: string): Buffer => Buffer.from(memoryDigest(head));

/** Proves that a holder of the root key wrote the manifest, and with it the digests of all rows. @param head the line of the manifest. */
const sealHead = async (wrap: KeyProvider['wrap'], manifest: DumpKind, head: string): Promise<string> =>
  (await wrap(digestOf(head), sealContext(manifest))).toString('base64');

/** Whether the root key at hand sealed this manifest. */
export const isSealedHead = async (
  provider: KeyProvider,
  manifest: DumpKind,
  head: string,
  seal: string,
): Promise<boolean> => {
  const opened = await provider.unwrap(Buffer.from(seal, 'base64'), sealContext(manifest)).catch(() => undefined);
  return opened?.equals(digestOf(head)) ?? false;
};

/** Dumps tables of the vault into a new file. @param pack what becomes of the bytes on their way into the file. */
const writeDump = async (
  io: CommandIo,
  config: Config,
  file: string,
  kind: Manifest['strongroom'],
  tables: readonly string[],
  pack: (content: Readable) => Readable | Promise<Readable>,
): Promise<Manifest> => {
  const start: Start = { closers: [], isLockLost: false };
  const environment = environmentOf(config);
  await checkNewFile(file);
  try {
    const services = { log: createLog(config.logLevel), accounts: createAccounts(), metrics: createMetrics() };
    const { db, poolConfig } = await openDatabase(config, 'command', services, start);
    const instance = await createKeyRows(db).findInstance();
    if (!instance) throw noVault(config);
    const provider = await openVault(config, instance, environment);
    // The root key of the vault, also where a rotation to the first configured one has not begun.
    const { root_key_id } = parseWrapped(instance.wrapped_pepper);
    const wrap: KeyProvider['wrap'] = (key, context) => provider.wrapAs(instance.wrapped_pepper, key, context);
    const label = { strongroom: kind, product: version, environment, root_key_id };
    return await inSession(poolConfig, (session) =>
      dumpTables(
        session,
        tables,
        label,
        (head) => sealHead(wrap, label, head),
        async (content) => writeNewFile(file, await pack(Readable.from(content, { objectMode: false }))),
        createProgress(io.say),
      ),
    );
  } catch (error) {
    const code = codeOf(error);
    if (error instanceof StartError || code === undefined) throw error;
    throw new StartError(
      `The database could not be read (${code}). There is no ${file}. The role needs SELECT on all tables of the vault.`,
      { cause: error },
    );
  } finally {
    await closeAll(start);
  }
};

const sumOf = ({ tables }: Manifest, what: 'rows' | 'bytes'): number =>
  tables.reduce((sum, table) => sum + table[what], 0);

/** Writes a backup. @param recipient a public key of age. @throws StartError; no file is left then. */
export const backUp = async (io: CommandIo, config: Config, file: string, recipient: string): Promise<void> => {
  const encrypt = createAgeEncryption(recipient);
  const manifest = await writeDump(io, config, file, 'backup', KEPT_TABLES, (content) =>
    // Sealed values do not shrink, and hexadecimal digits do: higher levels take longer for nothing.
    encrypt(pipeline(content, createGzip({ level: constants.Z_BEST_SPEED }), () => undefined)),
  );
  io.print(
    `Written: ${file}\nmade_at      ${manifest.made_at}\nroot_key_id  ${manifest.root_key_id}\nrows         ${sumOf(manifest, 'rows')} in ${manifest.tables.length} tables, ${mebibytes(sumOf(manifest, 'bytes'))}\n\nIt opens nothing without the root key (MASTER_KEY): keep that elsewhere.`,
  );
};

/** Writes the erasure list. @throws StartError; no file is left then. */
export const exportErasures = async (io: CommandIo, config: Config, file: string): Promise<void> => {
  const manifest = await writeDump(io, config, file, 'erasures', ['erasures'], (content) => content);
  io.print(`Written: ${file}\nmade_at      ${manifest.made_at}\nerasures     ${sumOf(manifest, 'rows')}`);
};
