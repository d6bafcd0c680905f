// Files that prove a log: exports with rows, proofs of archives without them, and proofs of single rows. Lines of JSON, or text.
import { parseJson } from '../json/json.ts';
import { z } from 'zod';
import type { ProofEvent } from './log-verifier.ts';
import { leafOfLine, idsOfLine } from '../db/leaf.ts';
import type { RowProof } from './log-proof.ts';
import { HASH_BYTES, rootOfProof } from '../crypto/merkle.ts';
import { type Checkpoint, type LogPublicKey, openCheckpoint, publicKeyText } from '../crypto/signed-note.ts';
import { version } from '../base/version.ts';

/** Raised when an earlier release could not read a file. */
const FORMAT = 1;

const base64Hash = z
  .string()
  .regex(/^[A-Za-z0-9+/]{43}=$/)
  .transform((text) => Buffer.from(text, 'base64'));
const uuid = z.string().regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const position = z.number().int().nonnegative();

const headerLine = z.looseObject({
  strongroom: z.enum(['log-export', 'log-proof']),
  format: z.number().int(),
  product: z.string(),
  /** An archive has none: the role that writes it need not be able to open the vault. */
  public_key: z.string().optional(),
});

const treeLine = z.strictObject({
  tenant_id: uuid,
  from: position,
  frontier: z.array(base64Hash),
  checkpoint: z.string().optional(),
});
const leafLine = z.strictObject({
  position,
  id: uuid,
  leaf: base64Hash,
  row: z.record(z.string(), z.unknown()).optional(),
  archived: z.literal(true).optional(),
});
const rowLine = z.strictObject({ row: z.record(z.string(), z.unknown()) });
const checkpointLine = z.strictObject({ checkpoint: z.string() });

export type ProofHeader = { kind: 'log-export' | 'log-proof'; public_key: string | undefined };

const base64 = (bytes: Buffer): string => bytes.toString('base64');

export const headerText = (kind: ProofHeader['kind'], key: LogPublicKey | undefined, now: Date): string =>
  JSON.stringify({
    strongroom: kind,
    format: FORMAT,
    product: version,
    made_at: now.toISOString(),
    public_key: key && publicKeyText(key),
  });

/** The line of an event. A row stands in it as it is. */
export const lineOf = (event: Exclude<ProofEvent, { kind: 'damage' }>): string => {
  if (event.kind === 'tree') {
    const { tenant_id, from, frontier, newest } = event;
    return JSON.stringify({ tenant_id, from, frontier: frontier.map(base64), checkpoint: newest });
  }
  if (event.kind === 'checkpoint') return JSON.stringify({ checkpoint: event.note });
  if (event.kind === 'row') return `{"row":${event.line}}`;
  const { position: at, id, leaf, line, isArchived } = event;
  const start = `{"position":${at},"id":"${id}","leaf":"${base64(leaf)}"`;
  if (line !== undefined) return `${start},"row":${line}}`;
  return isArchived ? `${start},"archived":true}` : `${start}}`;
};

/** @returns undefined for a line that is no header; a number for a format that only a later release reads. */
export const parseHeader = (line: string): ProofHeader | undefined | number => {
  const parsed = headerLine.safeParse(parseJson(line));
  if (!parsed.success) return undefined;
  const { format, strongroom, public_key } = parsed.data;
  return format > FORMAT ? format : { kind: strongroom, public_key };
};

/** @param place of the line, for a line that is none. */
export const eventOf = (line: string, tenant_id: string | undefined, place: string): ProofEvent => {
  const parsed = parseJson(line);
  const damage: ProofEvent = { kind: 'damage', text: `${place} is no line of such a file: it was changed or cut off.` };
  // Refuses repeated names, which other readers take in another way.
  if (typeof parsed !== 'object' || parsed === null || JSON.stringify(parsed) !== line) return damage;
  if ('position' in parsed) {
    const { data } = leafLine.safeParse(parsed);
    if (!data) return damage;
    const text = data.row === undefined ? undefined : JSON.stringify((parsed as { row?: unknown }).row);
    const { position: at, id, leaf, archived } = data;
    return { kind: 'leaf', position: at, id, leaf, line: text, isArchived: archived ?? false };
  }
  if ('row' in parsed) {
    if (!rowLine.safeParse(parsed).success) return damage;
    const text = JSON.stringify(parsed.row);
    return { kind: 'row', tenant_id: tenant_id ?? '', id: idsOfLine(text)?.id, line: text };
  }
  if ('tenant_id' in parsed) {
    const { data } = treeLine.safeParse(parsed);
    if (!data) return damage;
    return {
      kind: 'tree',
      tenant_id: data.tenant_id,
      from: data.from,
      frontier: data.frontier,
      newest: data.checkpoint,
    };
  }
  const { data } = checkpointLine.safeParse(parsed);
  return data ? { kind: 'checkpoint', note: data.checkpoint } : damage;
};

/** c2sp.org/tlog-proof@v1, with the row as its extra data. */
const PROOF_TITLE = 'c2sp.org/tlog-proof@v1';
const PROOF =
  /^c2sp\.org\/tlog-proof@v1\nextra (?<extra>[A-Za-z0-9+/]+=*)\nindex (?<index>0|[1-9]\d{0,15})\n(?<hashes>(?:[A-Za-z0-9+/]{43}=\n)*)\n(?<note>[^]+)$/;

export const proofText = ({ line, index, hashes, checkpoint }: RowProof): string =>
  [
    PROOF_TITLE,
    `extra ${Buffer.from(line).toString('base64')}`,
    `index ${index}`,
    ...hashes.map(base64),
    '',
    checkpoint,
  ].join('\n');

export type VerifiedProof = { checkpoint: Checkpoint; index: number; line: string };

/** @returns undefined where the text proves nothing. */
export const verifyProof = (text: string, keys: readonly LogPublicKey[]): VerifiedProof | undefined => {
  const found = PROOF.exec(text)?.groups;
  if (!found) return undefined;
  const { extra = '', index = '', hashes = '', note = '' } = found;
  const checkpoint = openCheckpoint(note, keys);
  const line = Buffer.from(extra, 'base64').toString('utf8');
  const proof = hashes
    .split('\n')
    .filter(Boolean)
    .map((hash) => Buffer.from(hash, 'base64'));
  if (!checkpoint || proof.some(({ length }) => length !== HASH_BYTES)) return undefined;
  if (idsOfLine(line)?.tenant_id !== checkpoint.tenant_id) return undefined;
  const root = rootOfProof(Number(index), checkpoint.size, leafOfLine(line), proof);
  return root?.equals(checkpoint.root) ? { checkpoint, index: Number(index), line } : undefined;
};
