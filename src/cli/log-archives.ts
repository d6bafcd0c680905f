// Verifies archives of the audit log, and says which rows of a log they have.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type ArchiveMark, isSameMark, isSignedMark } from '../platform/db/archive-mark.ts';
import {
  createLogVerifier,
  type Finding,
  type HeldCheckpoints,
  type ProofEvent,
  type VerifiedLog,
} from '../platform/audit/log-verifier.ts';
import { isDeletionOf } from '../platform/db/leaf.ts';
import type { LogPublicKey } from '../platform/crypto/signed-note.ts';
import { StartError } from '../platform/base/errors.ts';
import {
  isArchivePath,
  type LogManifest,
  markOf,
  readManifest,
  verifyLogArchive,
} from '../platform/audit/log-archive-file.ts';
import { readArchiveEvents } from '../platform/audit/log-archive-proof.ts';

export type Verdict = { finding: Finding | undefined; verified: readonly VerifiedLog[] };

/** @param note called with each row that has a leaf, and its tenant. */
export const notingRows = async function* (
  events: AsyncIterable<ProofEvent>,
  note: (row: { tenant_id: string; id: string; line: string }) => void,
): AsyncGenerator<ProofEvent> {
  let tenant_id = '';
  for await (const event of events) {
    if (event.kind === 'tree') ({ tenant_id } = event);
    if (event.kind === 'leaf' && event.line !== undefined) note({ tenant_id, id: event.id, line: event.line });
    yield event;
  }
};

export const verifyEvents = async (
  events: AsyncIterable<ProofEvent>,
  keys: readonly LogPublicKey[],
  held: HeldCheckpoints | undefined,
  isArchive: boolean,
): Promise<Verdict> => {
  const verifier = createLogVerifier(keys, held, isArchive);
  for await (const event of events) {
    verifier.take(event);
    if (verifier.hasFinding()) break;
  }
  return verifier.end();
};

/** A row is signed this long after its time at most. */
const SIGNED_MS = 5 * 60_000;

/** A tenant whose held checkpoints of a month grow has rows in its archive, up to the last of them. */
const compareWithHeld = (
  { from, to }: LogManifest,
  verified: readonly VerifiedLog[],
  held: HeldCheckpoints | undefined,
): Finding | undefined => {
  if (from === null || to === null) return undefined;
  for (const [tenant_id, checkpoints] of held ?? []) {
    const within = [...checkpoints.values()].filter(
      ({ at }) => at.getTime() >= Date.parse(from) + SIGNED_MS && at.getTime() <= Date.parse(to),
    );
    const sizes = within.map(({ size }) => size);
    const most = Math.max(...sizes);
    const part = verified.find((each) => each.tenant_id === tenant_id);
    if (Math.min(...sizes) < most && (part?.size ?? 0) < most)
      return {
        kind: 'cut_off',
        tenant_id,
        text: `Your checkpoints have ${most} rows of this tenant in the month of the archive, and the archive has ${part ? `the rows up to ${part.size - 1}` : 'none'}.`,
      };
  }
  return undefined;
};

/**
 * Verifies an archive by its proof and by its mark. One from before the log was signed has a mark alone, one of an earlier release a
 * proof alone.
 * @param isKnown whether a signed mark of elsewhere is that of the archive. @throws StartError.
 */
export const judgeArchive = async (
  path: string,
  keys: readonly LogPublicKey[],
  held?: HeldCheckpoints,
  isKnown: (mark: ArchiveMark) => boolean = () => false,
  note: Parameters<typeof notingRows>[1] = () => undefined,
): Promise<Verdict & { manifest: LogManifest }> => {
  const manifest = await readManifest(path);
  const mark = markOf(manifest);
  const isMarked =
    mark !== undefined && (manifest.mark === undefined ? isKnown(mark) : isSignedMark(mark, manifest.mark, keys));
  const hasProof = manifest.proof !== undefined && manifest.signed_roots.length > 0;
  // An empty month of an earlier release has neither: there is nothing to prove.
  const isProven = hasProof || (!isMarked && manifest.rows > 0);
  const { finding, verified } = isProven
    ? await verifyEvents(notingRows(readArchiveEvents(path), note), keys, held, true)
    : { finding: undefined, verified: [] };
  if (finding) return { finding, verified, manifest };
  if (manifest.mark !== undefined && !isMarked)
    return {
      manifest,
      verified,
      finding: {
        kind: 'archive',
        tenant_id: undefined,
        text: 'The key has not signed the bounds and the rows of the manifest.',
      },
    };
  if (isMarked || !isProven) await verifyLogArchive(path);
  return { manifest, verified, finding: compareWithHeld(manifest, verified, held) };
};

export type VerifiedArchives = {
  finding: Finding | undefined;
  has(mark: ArchiveMark): boolean;
  /** Whether the log of a tenant in them has its deletion. */
  hasDeletionOf(tenant_id: string): boolean;
  /** Whether a tenant has rows in an archive from before the log was signed. */
  hasUnprovenRowsOf(tenant_id: string): boolean;
  /** The first position of a range that no archive has. */
  firstMissing(tenant_id: string, range: { from: number; to: number }): number | undefined;
};

/**
 * Verifies all archives in a directory and below it. Undefined has none.
 * @param marks signed marks of the database. @throws StartError.
 */
export const verifyArchives = async (
  directory: string | undefined,
  marks: readonly ArchiveMark[],
  keys: readonly LogPublicKey[],
  held: HeldCheckpoints | undefined,
): Promise<VerifiedArchives> => {
  const found: ArchiveMark[] = [];
  const parts: VerifiedLog[] = [];
  const deleted = new Set<string>();
  const unproven = new Set<string>();
  let finding: Finding | undefined;
  const isKnown = (mark: ArchiveMark): boolean => marks.some((each) => isSameMark(each, mark));
  const names =
    directory === undefined
      ? []
      : await readdir(directory, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
          throw new StartError(`${directory} cannot be read (${error.code}).`);
        });
  for (const name of names.toSorted()) {
    if (!isArchivePath(name) || name.endsWith('.proof.jsonl.gz')) continue;
    const judged = await judgeArchive(join(directory ?? '', name), keys, held, isKnown, ({ tenant_id, line }) => {
      if (isDeletionOf(tenant_id, line)) deleted.add(tenant_id);
    });
    if (judged.finding) finding ??= { ...judged.finding, text: `${name}: ${judged.finding.text}` };
    const mark = markOf(judged.manifest);
    if (mark) found.push(mark);
    parts.push(...judged.verified);
    const { proof, tenants } = judged.manifest;
    if (proof === undefined) for (const tenant_id of Object.keys(tenants)) unproven.add(tenant_id);
  }
  return {
    finding,
    hasDeletionOf: (tenant_id) => deleted.has(tenant_id),
    hasUnprovenRowsOf: (tenant_id) => unproven.has(tenant_id),
    has: (mark) => found.some((each) => isSameMark(each, mark)),
    firstMissing: (tenant_id, { from, to }) => {
      const own = parts.filter((part) => part.tenant_id === tenant_id).toSorted((one, other) => one.from - other.from);
      let next = from;
      for (const part of own) if (part.from <= next && part.size > next) next = part.size;
      return next < to ? next : undefined;
    },
  };
};
