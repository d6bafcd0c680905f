// The proof of an archive: written from the trees of the tenants, and read together with the rows.
import { LEAST_ID } from '../crypto/ids.ts';
import { idsOfLine } from '../db/leaf.ts';
import { readMonthOfTree } from './log-proof.ts';
import type { ProofEvent } from './log-verifier.ts';
import { parseCheckpoint } from '../crypto/signed-note.ts';
import type { LogPartition } from '../db/log-partitions.ts';
import { findTreeAfter } from '../db/log-trees.ts';
import type { Query } from '../db/statements.ts';
import { type ArchiveProof, openProvenArchive } from './log-archive-file.ts';
import { eventOf, headerText, lineOf, parseHeader } from './log-proof-file.ts';

/** The proof of a partition with an upper bound. */
export const proofOfPartition = (query: Query, { from_id }: LogPartition, to_id: string, now: Date): ArchiveProof => {
  const roots: string[] = [];
  const lines = async function* (): AsyncGenerator<string> {
    yield headerText('log-proof', undefined, now);
    let tenant_id = await findTreeAfter(query, LEAST_ID);
    for (; tenant_id !== undefined; tenant_id = await findTreeAfter(query, tenant_id)) {
      let newest: string | undefined;
      for await (const event of readMonthOfTree(query, tenant_id, { from_id, to_id })) {
        if (event.kind === 'checkpoint') newest = event.note;
        if (event.kind !== 'damage') yield lineOf(event);
      }
      if (newest !== undefined) roots.push(newest);
    }
  };
  return { lines: lines(), roots: () => roots };
};

type Row = { tenant_id: string; id: string; line: string };

/** Rows of an archive. One that does not say what it is sorts before all others, and belongs to no leaf. */
const rowsOf = async function* (lines: AsyncIterable<string>): AsyncGenerator<Row> {
  for await (const line of lines) yield { ...(idsOfLine(line) ?? { tenant_id: '', id: '' }), line };
};

/** The events of an archive: its leaves with the rows that they should be the hashes of. @throws StartError. */
export const readArchiveEvents = async function* (path: string): AsyncGenerator<ProofEvent> {
  const { roots, proof, rows: lines } = await openProvenArchive(path);
  const newestOf = new Map(roots.map((note) => [parseCheckpoint(note)?.tenant_id, note]));
  const rows = rowsOf(lines);
  let next = await rows.next();
  const added = async function* (isBefore: (row: Row) => boolean): AsyncGenerator<ProofEvent> {
    for (; !next.done && isBefore(next.value); next = await rows.next()) {
      const { tenant_id, id, line } = next.value;
      yield { kind: 'row', tenant_id, id: id === '' ? undefined : id, line };
    }
  };

  let tenant_id: string | undefined;
  let number = 0;
  for await (const text of proof) {
    number += 1;
    if (number === 1) {
      if (typeof parseHeader(text) !== 'object')
        yield { kind: 'damage', text: 'The first line of the proof was changed.' };
      continue;
    }
    const event = eventOf(text, tenant_id, `Line ${number} of the proof`);
    if (event.kind === 'tree') {
      const of = event.tenant_id;
      yield* added((row) => row.tenant_id < of);
      const newest = newestOf.get(of);
      if (newest === undefined) yield { kind: 'damage', text: `The manifest has no signed root of the tenant ${of}.` };
      yield { ...event, newest };
      newestOf.delete(of);
      tenant_id = of;
    } else if (event.kind === 'leaf') {
      const { id } = event;
      const isSooner = (row: Row): boolean =>
        row.tenant_id === tenant_id ? row.id < id : row.tenant_id < (tenant_id as string);
      yield* added(isSooner);
      const isHere = !next.done && next.value.tenant_id === tenant_id && next.value.id === id;
      yield { ...event, isArchived: false, line: isHere ? (next.value as Row).line : undefined };
      if (isHere) next = await rows.next();
    } else yield event;
  }
  yield* added(() => true);
  for (const [of] of newestOf)
    yield { kind: 'damage', text: `The proof of the tenant ${of ?? 'of a signed root'} is missing.` };
};
