// Verifies a log against its signed checkpoints, in one pass, and names the first row that was changed, removed, moved or cut off.
import { monthEndOf } from '../crypto/ids.ts';
import { append, copyOf, type Frontier, frontierLength, rootOf } from '../crypto/merkle.ts';
import { type Checkpoint, type LogPublicKey, openCheckpoint } from '../crypto/signed-note.ts';
import { idsOfLine, leafOfLine } from '../db/leaf.ts';

/** What a log, an export or an archive has, in the order of leaves. */
export type ProofEvent =
  /** The beginning of a tenant's part. `frontier` has what the leaves before it come to. */
  | { kind: 'tree'; tenant_id: string; from: number; frontier: Buffer[]; newest: string | undefined }
  /** A leaf, and the row that it should be the hash of, where that is there. Rows of archived months need not be. */
  | { kind: 'leaf'; position: number; id: string; leaf: Buffer; line: string | undefined; isArchived: boolean }
  /** A row that has no leaf. */
  | { kind: 'row'; tenant_id: string; id: string | undefined; line: string }
  | { kind: 'checkpoint'; note: string }
  /** What is none of these. */
  | { kind: 'damage'; text: string };

export type FindingKind =
  | 'changed'
  | 'removed'
  | 'added'
  | 'reordered'
  | 'cut_off'
  | 'interval'
  | 'leaf_hash'
  | 'checkpoint'
  | 'forked'
  | 'unsigned'
  | 'archive'
  | 'unverified'
  | 'tenant'
  | 'damaged';

/** What is wrong, and where. Never a value of a row. */
export type Finding = {
  kind: FindingKind;
  tenant_id: string | undefined;
  /** Position of the first leaf that it concerns, from 0. */
  position?: number;
  /** The row. */
  id?: string | undefined;
  text: string;
};

/** The part of a tenant that was verified. */
export type VerifiedLog = {
  tenant_id: string;
  /** Leaves before it are not there. */
  from: number;
  size: number;
  /** Leaves whose rows are said to be in archives, and where they are: up to `to`. */
  archived: number;
  archivedRanges: { from: number; to: number }[];
  checkpoints: number;
  signed_at: Date;
};

/** Roots of checkpoints that an outsider holds, by tenant and size. */
export type HeldCheckpoints = ReadonlyMap<string, ReadonlyMap<number, Checkpoint>>;

type Part = {
  tenant_id: string;
  from: number;
  /** Frontier of the leaf hashes as they are listed. */
  leaves: Frontier;
  /** Frontier of the rows, from the first one on that is not what its leaf hash says; null where a row is missing. */
  rows: Frontier | null | undefined;
  lastId: string | undefined;
  /** The last leaf of the part so far whose row is archived, or is not. */
  last: { id: string; isArchived: boolean } | undefined;
  /** What is wrong if the listed leaf hashes are those that were signed. */
  pending: Finding | undefined;
  /** Positions that were left out. A later one of them shows that lines were moved, not removed. */
  gap: { from: number; to: number } | undefined;
  newest: Checkpoint | undefined;
  signed: Checkpoint | undefined;
  archived: number;
  archivedRanges: { from: number; to: number }[];
  checkpoints: number;
};

const rowText = (id: string | undefined): string => (id === undefined ? 'A row' : `The row ${id}`);

/**
 * Takes events until there is a finding. Its memory does not grow with the log.
 * @param isArchive the log goes on after its end, so that larger checkpoints are held of it.
 */
export const createLogVerifier = (
  keys: readonly LogPublicKey[],
  held: HeldCheckpoints = new Map(),
  isArchive = false,
) => {
  let part: Part | undefined;
  let finding: Finding | undefined;
  const verified: VerifiedLog[] = [];

  const find = (kind: FindingKind, text: string, place: { position?: number; id?: string | undefined } = {}): void => {
    finding ??= { kind, tenant_id: part?.tenant_id, ...place, text };
  };

  /** Compares the tree with what was signed of this size. */
  const compare = (of: Part, signed: Checkpoint, isHeld: boolean): void => {
    const since = of.signed?.size ?? of.from;
    if (rootOf(of.leaves).equals(signed.root)) {
      finding ??= of.pending;
      of.signed = signed;
      of.rows = undefined;
      return;
    }
    if (of.rows && rootOf(of.rows).equals(signed.root))
      return find(
        'leaf_hash',
        `A leaf hash at or after position ${of.pending?.position ?? since} was changed. The rows themselves are as they were signed.`,
        { position: of.pending?.position ?? since },
      );
    find(
      'interval',
      `Rows or leaf hashes between the positions ${since} and ${signed.size - 1} are not those that ${isHeld ? 'your' : 'the'} checkpoint of ${signed.at.toISOString()} signed.`,
      { position: since },
    );
  };

  const endPart = (): void => {
    if (!part || finding) return;
    const of = part;
    const { size } = of.leaves;
    if (of.gap)
      return find(
        'removed',
        `The rows from position ${of.gap.from} to ${of.gap.to - 1} were removed${of.lastId === undefined ? '' : `, before the row ${of.lastId}`}.`,
        { position: of.gap.from },
      );
    const heldHere = isArchive ? [] : [...(held.get(of.tenant_id)?.values() ?? [])];
    const largest = [of.newest, ...heldHere].reduce(
      (one, other) => ((other?.size ?? 0) > (one?.size ?? 0) ? other : one),
      undefined,
    );
    if (largest && largest.size > size)
      return find(
        'cut_off',
        `The log was cut off: rows from position ${size} on are missing${of.lastId === undefined ? '' : `, after the row ${of.lastId}`}. The checkpoint of ${largest.at.toISOString()} has ${largest.size}.`,
        { position: size },
      );
    finding ??= of.pending;
    if (!of.signed || of.signed.size < size)
      return find('unsigned', `No checkpoint signs the rows from position ${of.signed?.size ?? of.from} on.`, {
        position: of.signed?.size ?? of.from,
      });
    const { tenant_id, from, archived, archivedRanges, checkpoints } = of;
    verified.push({ tenant_id, from, size, archived, archivedRanges, checkpoints, signed_at: of.signed.at });
    part = undefined;
  };

  const beginPart = ({ tenant_id, from, frontier, newest }: ProofEvent & { kind: 'tree' }): void => {
    endPart();
    if (finding) return;
    part = {
      tenant_id,
      from,
      leaves: { size: from, hashes: [...frontier] },
      rows: undefined,
      lastId: undefined,
      last: undefined,
      pending: undefined,
      gap: undefined,
      newest: undefined,
      signed: undefined,
      archived: 0,
      archivedRanges: [],
      checkpoints: 0,
    };
    if (frontier.length !== frontierLength(from))
      return find('damaged', `The hashes of what comes before position ${from} are not as many as they should be.`);
    if (newest === undefined) return;
    part.newest = openCheckpoint(newest, keys);
    if (part.newest?.tenant_id !== tenant_id) find('checkpoint', 'The newest checkpoint is not signed by the key.');
  };

  /** Archived rows are whole months. */
  const checkArchived = (of: Part, id: string, isArchived: boolean): void => {
    if (of.last && of.last.isArchived !== isArchived && id < monthEndOf(of.last.id)) {
      const missing = isArchived ? id : of.last.id;
      of.pending ??= {
        kind: 'removed',
        tenant_id: of.tenant_id,
        position: isArchived ? of.leaves.size : of.leaves.size - 1,
        id: missing,
        text: `The row ${missing} was removed: other rows of its month are not in an archive.`,
      };
    }
    of.last = { id, isArchived };
  };

  const takeLeaf = ({ position, id, leaf, line, isArchived }: ProofEvent & { kind: 'leaf' }): void => {
    if (!part) return find('damaged', 'A leaf comes before the beginning of a tree.');
    const of = part;
    const note = (kind: FindingKind, text: string): void => {
      of.pending ??= { kind, tenant_id: of.tenant_id, position, id, text };
    };
    if (of.gap) {
      if (position >= of.gap.from && position < of.gap.to)
        find('reordered', `The row ${id} of position ${position} stands behind others that follow it.`, {
          position,
          id,
        });
      return;
    }
    if (position < of.leaves.size)
      return find('reordered', `The row ${id} of position ${position} stands in another place, or twice.`, {
        position,
        id,
      });
    if (position > of.leaves.size) {
      of.gap = { from: of.leaves.size, to: position };
      of.lastId = id;
      return;
    }
    if (of.lastId !== undefined && id <= of.lastId)
      note('reordered', `The row ${id} at position ${position} is not in the order of ids.`);
    checkArchived(of, id, isArchived && line === undefined);
    let actual: Buffer | undefined = leaf;
    if (line !== undefined) {
      actual = leafOfLine(line);
      const found = idsOfLine(line)?.id;
      if (!actual.equals(leaf)) {
        if (found === id) note('changed', `The row ${id} at position ${position} was changed.`);
        else note('reordered', `${rowText(found)} stands in the place of the row ${id}, at position ${position}.`);
      }
    } else if (isArchived) {
      of.archived += 1;
      const range = of.archivedRanges.at(-1);
      if (range?.to === position) range.to += 1;
      else of.archivedRanges.push({ from: position, to: position + 1 });
    } else {
      actual = undefined;
      note('removed', `The row ${id} at position ${position} was removed.`);
    }
    if (of.rows === undefined && !actual?.equals(leaf)) of.rows = actual ? copyOf(of.leaves) : null;
    if (of.rows) {
      if (actual) append(of.rows, actual);
      else of.rows = null;
    }
    append(of.leaves, leaf);
    of.lastId = id;
    const heldHere = held.get(of.tenant_id)?.get(of.leaves.size);
    if (heldHere) compare(of, heldHere, true);
  };

  const takeCheckpoint = (note: string): void => {
    if (!part) return find('damaged', 'A checkpoint comes before the beginning of a tree.');
    if (part.gap) return;
    const signed = openCheckpoint(note, keys);
    const { size } = part.leaves;
    if (!signed || signed.tenant_id !== part.tenant_id)
      return find(
        'checkpoint',
        `The checkpoint after position ${size - 1} is not signed by the key: it was changed, or is of another log.`,
        {
          position: size - 1,
        },
      );
    if (signed.size !== size)
      return find(
        'interval',
        `Rows between the positions ${part.signed?.size ?? part.from} and ${Math.max(size, signed.size) - 1} were added, removed or moved: the checkpoint of ${signed.at.toISOString()} has ${signed.size}, and ${size} are there.`,
        { position: part.signed?.size ?? part.from },
      );
    part.checkpoints += 1;
    compare(part, signed, false);
  };

  return {
    take(event: ProofEvent): void {
      if (finding) return;
      if (event.kind === 'tree') beginPart(event);
      else if (event.kind === 'leaf') takeLeaf(event);
      else if (event.kind === 'checkpoint') takeCheckpoint(event.note);
      else if (event.kind === 'damage') find('damaged', event.text);
      else {
        const text = `${rowText(event.id)} was added: the tree does not have it.`;
        if (!part || event.tenant_id !== part.tenant_id)
          finding = { kind: 'added', tenant_id: event.tenant_id, id: event.id, text };
        else if (part.pending?.kind === 'removed' && part.pending.id === event.id)
          part.pending = { ...part.pending, kind: 'reordered', text: `${rowText(event.id)} stands in another place.` };
        else
          part.pending ??= { kind: 'added', tenant_id: part.tenant_id, position: part.leaves.size, id: event.id, text };
      }
    },
    /** Whether more events would change nothing. */
    hasFinding: (): boolean => finding !== undefined,
    end(): { finding: Finding | undefined; verified: readonly VerifiedLog[] } {
      endPart();
      return { finding, verified };
    },
  };
};
