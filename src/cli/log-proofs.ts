// `strongroom admin logs export`, `verify`, `prove`, `key` and `keygen`: proves the audit log, and verifies proofs without a database.
import { DAY_MS } from '../platform/base/times.ts';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { proveRow, readRows, readTreeWithRows } from '../platform/audit/log-proof.ts';
import { isDeletionOf } from '../platform/db/leaf.ts';
import type { Finding, HeldCheckpoints, ProofEvent, VerifiedLog } from '../platform/audit/log-verifier.ts';
import { TreeTampered } from '../platform/audit/tree-state.ts';
import { firstIdAt, GREATEST_ID, LEAST_ID } from '../platform/crypto/ids.ts';
import {
  type Checkpoint,
  type LogPublicKey,
  newSigningKeyPem,
  openCheckpoint,
  parsePublicKey,
  parseSigningKey,
  publicKeyText,
  verifierKeyText,
} from '../platform/crypto/signed-note.ts';
import {
  findArchivedMonths,
  findLogTenantAfter,
  findTreeAfter,
  findUnloggedAfter,
  hasTenant,
  isSignedMonth,
} from '../platform/db/log-trees.ts';
import type { Query } from '../platform/db/statements.ts';
import { StartError } from '../platform/base/errors.ts';
import { writeNewFile, writePrivate } from '../platform/base/files.ts';
import { isArchivePath, readLines } from '../platform/audit/log-archive-file.ts';
import { eventOf, headerText, lineOf, parseHeader, proofText, verifyProof } from '../platform/audit/log-proof-file.ts';
import type { Platform } from '../platform/services/platform.ts';
import { type CommandIo, UsageError } from './command.ts';
import { judgeArchive, notingRows, type Verdict, type VerifiedArchives, verifyArchives, verifyEvents } from './logs.ts';
import { PROGRAM } from '../platform/base/program.ts';

/** The text of a proof is some kilobytes; its row has as many entities as an operation may have. */
const PROOF_BYTES_MAX = 32 * 1024 * 1024;

/** Older rows that are not signed are a finding: of servers that run, one signs them long before. */
const UNSIGNED_MS = 15 * 60_000;

type Vault = Pick<Platform, 'db' | 'logSigning' | 'now'>;

const parseKeys = (text: string): LogPublicKey[] => {
  const keys = text.split(',').map(parsePublicKey);
  if (keys.every((key) => key !== undefined)) return keys;
  throw new UsageError('The option --key must be public keys as logs key prints them, comma-separated.');
};

const unreadable = (path: string, error: unknown): StartError =>
  new StartError(`${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'no file'}).`);

/** The lines of a text file, without their ends. @throws StartError. */
const linesOf = async function* (path: string): AsyncGenerator<string> {
  try {
    for await (const line of readLines(createReadStream(path) as AsyncIterable<Buffer>))
      yield line.toString('utf8').replace(/\n$/, '');
  } catch (error) {
    throw unreadable(path, error);
  }
};

type Held = { held: HeldCheckpoints | undefined; fork: Finding | undefined };

/** Checkpoints that were exported, by tenant and size: about 200 bytes each. Two of one size must be of one tree. @throws StartError. */
const readHeld = async (
  io: Pick<CommandIo, 'say'>,
  path: string | undefined,
  keys: readonly LogPublicKey[],
): Promise<Held> => {
  if (path === undefined) return { held: undefined, fork: undefined };
  const held = new Map<string, Map<number, Checkpoint>>();
  let fork: Finding | undefined;
  let number = 0;
  for await (const line of linesOf(path)) {
    number += 1;
    if (line === '') continue;
    let note: unknown;
    try {
      note = (JSON.parse(line) as { checkpoint?: unknown }).checkpoint;
    } catch {
      note = undefined;
    }
    const checkpoint = typeof note === 'string' ? openCheckpoint(note, keys) : undefined;
    // A process that was killed may leave a part of a line.
    if (!checkpoint) {
      io.say(`Line ${number} of ${path} has no checkpoint that the key signed. It is left out.`);
      continue;
    }
    const { tenant_id, size, root } = checkpoint;
    const ofTenant = held.get(tenant_id) ?? new Map<number, Checkpoint>();
    held.set(tenant_id, ofTenant);
    const known = ofTenant.get(size);
    if (!known) ofTenant.set(size, checkpoint);
    else if (!known.root.equals(root))
      fork ??= {
        kind: 'forked',
        tenant_id,
        text: `Two logs of ${size} rows were signed, on ${known.at.toISOString()} and ${checkpoint.at.toISOString()}: line ${number} of your checkpoints contradicts one before it.`,
      };
  }
  if (held.size === 0) throw new StartError(`${path} has no checkpoint that the key signed.`);
  return { held, fork };
};

/** The events of an export, and the key that it names. @throws StartError. */
const openExport = async (path: string) => {
  const lines = linesOf(path);
  const first = await lines.next();
  const header = first.done ? undefined : parseHeader(first.value);
  if (typeof header === 'number')
    throw new StartError(`${path} was written by a newer version of Strongroom. Verify it with that version.`);
  if (header?.kind !== 'log-export')
    throw new StartError(
      `${path} is no export of a log (logs export), and no archive (FILE.jsonl.gz of logs archive).`,
    );
  const events = async function* (): AsyncGenerator<ProofEvent> {
    let tenant_id: string | undefined;
    let number = 1;
    for await (const line of lines) {
      number += 1;
      const event = eventOf(line, tenant_id, `Line ${number}`);
      if (event.kind === 'tree') tenant_id = event.tenant_id;
      yield event;
    }
  };
  return { public_key: header.public_key, events: events() };
};

const partText = ({ tenant_id, from, size, archived, checkpoints, signed_at }: VerifiedLog): string =>
  [
    `tenant ${tenant_id}  rows ${from} to ${size - 1}, ${checkpoints} checkpoints, signed until ${signed_at.toISOString()}`,
    ...(from > 0 ? [`  rows 0 to ${from - 1} are not here, but in archives`] : []),
    ...(archived > 0 ? [`  ${archived} rows are in archives`] : []),
  ].join('\n');

/** Prints a verdict, and sets the exit code. */
const printVerdict = (io: CommandIo, { finding, verified }: Verdict, isJson: boolean): void => {
  if (isJson) io.print(JSON.stringify({ ok: finding === undefined, finding, verified }));
  else {
    for (const part of verified) io.print(partText(part));
    if (finding)
      io.print(
        `NOT AS SIGNED${finding.tenant_id === undefined ? '' : `, tenant ${finding.tenant_id}`}: ${finding.text}`,
      );
    else if (verified.length === 0) io.print('There are no rows.');
    else io.print('All rows are as they were signed.');
  }
  if (finding) io.fail();
};

export type VerifyOptions = {
  key: string | undefined;
  checkpoints: string | undefined;
  archives?: string | undefined;
  isJson: boolean;
};

/** The first rows of a part that are neither in it nor in an archive that was verified. */
const findMissing = (
  { tenant_id, from, archivedRanges }: VerifiedLog,
  archives: VerifiedArchives,
): Finding | undefined => {
  for (const range of [{ from: 0, to: from }, ...archivedRanges]) {
    const position = archives.firstMissing(tenant_id, range);
    if (position === undefined) continue;
    const text = `The rows from position ${position} to ${range.to - 1} are not here, and in no archive that was verified.`;
    return { kind: 'removed', tenant_id, position, text };
  }
  return undefined;
};

/** A tenant of held checkpoints that has no verified part, nor all of its rows in archives. */
const findGone = (
  verified: readonly VerifiedLog[],
  held: HeldCheckpoints | undefined,
  archives: VerifiedArchives,
  isWanted: (tenant_id: string) => boolean,
): Finding | undefined => {
  for (const [tenant_id, checkpoints] of held ?? []) {
    if (!isWanted(tenant_id) || verified.some((part) => part.tenant_id === tenant_id)) continue;
    const to = Math.max(...checkpoints.keys());
    if (archives.firstMissing(tenant_id, { from: 0, to }) === undefined) continue;
    const text = 'Your checkpoints have a log of this tenant, which is not here, nor in an archive that was verified.';
    return { kind: 'cut_off', tenant_id, text };
  }
  return undefined;
};

/** A file may have been cut off at its beginning. */
const emptyOf = (verified: readonly VerifiedLog[]): Finding | undefined =>
  verified.length === 0 ? { kind: 'cut_off', tenant_id: undefined, text: 'The file has no signed rows.' } : undefined;

/** What an export or an archive proves. Needs no database and no configuration. @throws UsageError, StartError. */
export const judgeLogFile = async (
  io: Pick<CommandIo, 'say'>,
  path: string,
  options: Omit<VerifyOptions, 'isJson'>,
  tenant?: string,
): Promise<Verdict> => {
  const given = options.key === undefined ? undefined : parseKeys(options.key);
  const judge = async (events: AsyncIterable<ProofEvent>, keys: readonly LogPublicKey[]): Promise<Verdict> => {
    const { held, fork } = await readHeld(io, options.checkpoints, keys);
    if (fork) return { finding: fork, verified: [] };
    const archives = await verifyArchives(options.archives, [], keys, held);
    const { finding, verified } = await verifyEvents(events, keys, held, false);
    const missing = verified.map((part) => findMissing(part, archives)).find((each) => each !== undefined);
    const gone = findGone(verified, held, archives, (id) => id === tenant);
    return { finding: finding ?? archives.finding ?? missing ?? gone ?? emptyOf(verified), verified };
  };
  if (isArchivePath(path)) {
    if (!given) throw new UsageError('An archive does not name its key. Give it: --key "$(strongroom admin logs key)"');
    const { held, fork } = await readHeld(io, options.checkpoints, given);
    if (fork) return { finding: fork, verified: [] };
    const { finding, verified } = await judgeArchive(path, given, held);
    return { finding: finding ?? emptyOf(verified), verified };
  }
  const { public_key, events } = await openExport(path);
  if (given) return judge(events, given);
  const named = public_key === undefined ? undefined : parsePublicKey(public_key);
  if (!named) throw new UsageError(`${path} names no key. Give it: --key "$(strongroom admin logs key)"`);
  io.say(`Verified with the key that ${path} names. Compare it with strongroom admin logs key: ${public_key}`);
  return judge(events, [named]);
};

/** Verifies an export or an archive. @throws UsageError, StartError. */
export const verifyLogFile = async (
  io: CommandIo,
  path: string,
  options: VerifyOptions,
  tenant?: string,
): Promise<void> => printVerdict(io, await judgeLogFile(io, path, options, tenant), options.isJson);

/** Verifies the proof of a row. @throws UsageError, StartError. */
export const verifyRowProof = async (io: CommandIo, path: string, options: VerifyOptions): Promise<void> => {
  if (options.key === undefined)
    throw new UsageError('A proof does not name its key. Give it: --key "$(strongroom admin logs key)"');
  const keys = parseKeys(options.key);
  const found = await stat(path).catch((error: unknown) => {
    throw unreadable(path, error);
  });
  if (found.size > PROOF_BYTES_MAX) throw new StartError(`${path} is no proof of a row: it is too large.`);
  const proof = verifyProof(await readFile(path, 'utf8'), keys);
  if (!proof) {
    io.print(
      options.isJson
        ? JSON.stringify({ ok: false })
        : `${path} proves nothing: it was changed, or another key signed it.`,
    );
    io.fail();
    return;
  }
  const { checkpoint, index, line } = proof;
  const { tenant_id, size, at } = checkpoint;
  io.print(
    options.isJson
      ? JSON.stringify({ ok: true, tenant_id, index, size, signed_at: at, row: JSON.parse(line) })
      : `${line}\n\nThis row is number ${index} of ${size} in the log of tenant ${tenant_id}, as signed on ${at.toISOString()}.`,
  );
};

/** The tenants that have rows or a tree, in the order of ids. */
const tenantsOf = async function* (query: Query): AsyncGenerator<string> {
  let last = LEAST_ID;
  for (;;) {
    const next = [await findLogTenantAfter(query, last), await findTreeAfter(query, last)].filter(
      (id) => id !== undefined,
    );
    const [first] = next.toSorted();
    if (first === undefined) return;
    yield first;
    last = first;
  }
};

/** A tree that cannot be read is a finding. */
const readingTree = async function* (events: AsyncIterable<ProofEvent>): AsyncGenerator<ProofEvent> {
  try {
    yield* events;
  } catch (error) {
    if (!(error instanceof TreeTampered)) throw error;
    yield { kind: 'damage', text: `The leaf hashes in the database are damaged: ${error.message}.` };
  }
};

/** A tenant without a signed log, and a signed log of a tenant that is gone without a row of its deletion. */
const findOther = async (
  query: Query,
  now: Date,
  archives: VerifiedArchives,
  verified: readonly VerifiedLog[],
  deleted: ReadonlySet<string>,
  isWanted: (tenant_id: string) => boolean,
): Promise<Finding | undefined> => {
  const recent = { from: new Date(now.getTime() - UNSIGNED_MS), to: new Date(now.getTime() + DAY_MS) };
  let tenant_id = await findUnloggedAfter(query, LEAST_ID, recent);
  for (; tenant_id !== undefined; tenant_id = await findUnloggedAfter(query, tenant_id, recent))
    if (isWanted(tenant_id) && !archives.hasUnprovenRowsOf(tenant_id))
      return { kind: 'cut_off', tenant_id, text: 'The vault has this tenant, and no signed log of it.' };
  for (const part of verified) {
    if (deleted.has(part.tenant_id) || archives.hasDeletionOf(part.tenant_id)) continue;
    if (await hasTenant(query, part.tenant_id)) continue;
    const text = 'The vault does not have this tenant any more, and its log has no row of the deletion.';
    return { kind: 'tenant', tenant_id: part.tenant_id, text };
  }
  return undefined;
};

/** What is wrong with rows of a tenant behind its last leaf: no server wrote one, or none has signed one for long. */
const findLate = async (
  { statements: { query }, logMacs }: Vault['db'],
  tenant_id: string,
  from: string,
  signedBefore: string,
): Promise<Finding | undefined> => {
  let unsigned: string | undefined;
  for await (const { id, line } of readRows(query, tenant_id, from, GREATEST_ID)) {
    if (!logMacs.isIntact(line))
      return { kind: 'added', tenant_id, id, text: `The row ${id} was added: no server wrote it.` };
    if (id <= signedBefore) unsigned ??= id;
  }
  if (unsigned === undefined) return undefined;
  const text = `The row ${unsigned} and those after it are not signed. A running server signs a row within four minutes.`;
  return { kind: 'unsigned', tenant_id, id: unsigned, text };
};

const unsignedMark = (name: string): string =>
  `The key has not signed the mark of the archive ${name}, so it excuses no missing row.`;

const unverifiedArchive = (name: string, directory: string | undefined): string =>
  `Rows are in the archive ${name}, which ${directory === undefined ? 'was not verified: name its directory with --archives' : `is not in ${directory}`}.`;

/** Verifies the rows in the database of one tenant, or of all, against the stored checkpoints and those of a file. */
export const verifyDatabase = async (
  io: CommandIo,
  { db, logSigning, now }: Vault,
  tenant: string | undefined,
  options: VerifyOptions,
): Promise<void> => {
  const { query } = db.statements;
  const keys = options.key === undefined ? logSigning.publicKeys : parseKeys(options.key);
  const { held, fork } = await readHeld(io, options.checkpoints, keys);
  if (fork) return printVerdict(io, { finding: fork, verified: [] }, options.isJson);
  const stop = (finding: Finding | undefined): void => printVerdict(io, { finding, verified }, options.isJson);
  const verified: VerifiedLog[] = [];
  const deleted = new Set<string>();
  const marks = await findArchivedMonths(query);
  const unsigned = marks.find((mark) => !isSignedMonth(mark, keys));
  if (unsigned) return stop({ kind: 'archive', tenant_id: undefined, text: unsignedMark(unsigned.name) });
  const archives = await verifyArchives(options.archives, marks, keys, held);
  const signedBefore = firstIdAt(now().getTime() - UNSIGNED_MS);
  for await (const tenant_id of tenant === undefined ? tenantsOf(query) : [tenant]) {
    let lastRow = LEAST_ID;
    // The ids in the state of a tree and of archived leaves are not signed.
    const events = notingRows(readTreeWithRows(query, tenant_id, marks), ({ id, line }) => {
      lastRow = id;
      if (isDeletionOf(tenant_id, line)) deleted.add(tenant_id);
    });
    const found = await verifyEvents(readingTree(events), keys, held, false);
    verified.push(...found.verified);
    const finding = found.finding ?? (await findLate(db, tenant_id, lastRow, signedBefore));
    if (finding) return stop({ ...finding, tenant_id });
  }
  if (archives.finding) return stop(archives.finding);
  const isWanted = (id: string): boolean => tenant === undefined || id === tenant;
  // An archive that was not verified excuses no missing row.
  const named = marks.find((mark) => mark.rows > 0 && !archives.has(mark));
  const missing = verified.map((part) => findMissing(part, archives)).find((each) => each !== undefined);
  const gone = findGone(verified, held, archives, isWanted);
  if (named)
    return stop({ kind: 'unverified', tenant_id: undefined, text: unverifiedArchive(named.name, options.archives) });
  const none: Finding | undefined =
    tenant === undefined || verified.length > 0
      ? undefined
      : { kind: 'cut_off', tenant_id: tenant, text: 'The database has no signed log of this tenant.' };
  stop(missing ?? gone ?? none ?? (await findOther(query, now(), archives, verified, deleted, isWanted)));
};

/** Writes the log of a tenant with its leaf hashes and checkpoints. @throws StartError. */
export const exportLog = async (
  { db, logSigning, now }: Vault,
  tenant_id: string,
  path: string,
): Promise<{ rows: number }> => {
  const { query } = db.statements;
  const archives = await findArchivedMonths(query);
  let rows = 0;
  const bytes = async function* (): AsyncGenerator<Buffer> {
    yield Buffer.from(`${headerText('log-export', logSigning.key.publicKey, now())}\n`);
    for await (const event of readTreeWithRows(query, tenant_id, archives)) {
      if (event.kind === 'leaf' || event.kind === 'row') rows += event.line === undefined ? 0 : 1;
      if (event.kind !== 'damage') yield Buffer.from(`${lineOf(event)}\n`);
    }
  };
  try {
    await writeNewFile(path, Readable.from(bytes(), { objectMode: false }));
  } catch (error) {
    if (!(error instanceof TreeTampered)) throw error;
    throw new StartError(
      `The leaf hashes of tenant ${tenant_id} cannot be read: ${error.message}. There is no ${path}.`,
    );
  }
  return { rows };
};

/** @returns the proof of a row as text. @throws StartError where there is none. */
export const proveLogRow = async ({ db, logSigning }: Vault, tenant_id: string, id: string): Promise<string> => {
  try {
    const proof = await proveRow(db.statements.query, tenant_id, id, logSigning.publicKeys);
    if (proof) return proofText(proof);
  } catch (error) {
    if (!(error instanceof TreeTampered)) throw error;
    throw new StartError(
      `The row ${id} cannot be proven: ${error.message}. What is wrong: ${PROGRAM} logs verify --database`,
    );
  }
  throw new StartError(
    `The row ${id} is not in a signed log of tenant ${tenant_id}. A new row is signed within four minutes, and an archived one is in its archive. The id of a token or another record is no id of a row: GET /logs?entity_id=${id} lists the rows about it.`,
  );
};

/** The public key as text, or in the form of C2SP for the log of a tenant. */
export const logKeyText = ({ logSigning }: Vault, tenant_id: string | undefined): string =>
  tenant_id === undefined
    ? publicKeyText(logSigning.key.publicKey)
    : verifierKeyText(tenant_id, logSigning.key.publicKey);

/** Makes a signing key in a file for LOG_SIGNING_KEY_FILE. @returns its public key. @throws StartError. */
export const makeSigningKey = async (path: string): Promise<string> => {
  const pem = newSigningKeyPem();
  await writePrivate(path, pem).catch((error: NodeJS.ErrnoException) => {
    throw new StartError(
      error.code === 'EEXIST'
        ? `${path} exists, and is not overwritten. Choose another name.`
        : `${path} cannot be written (${error.code}).`,
    );
  });
  const key = parseSigningKey(pem);
  if (!key) throw new StartError('The key could not be made.');
  return publicKeyText(key.publicKey);
};
