// The mark of an archive: that rows of a range of ids are in a file with this digest, signed by the key of the log.
import { isSignedNote, type LogPublicKey, type LogSigningKey, signNote } from '../crypto/signed-note.ts';

/** Rows of all tenants from `from_id` on and below `to_id`. Null is no bound. */
export type ArchiveMark = {
  from_id: string | null;
  to_id: string;
  rows: number;
  /** Of the lines of the archive. */
  sha256: string;
};

const NAME = 'strongroom/log-archive';

const textOf = ({ from_id, to_id, rows, sha256 }: ArchiveMark): string =>
  `${NAME}\n${from_id ?? 'all'}\n${to_id}\n${rows}\n${sha256}\n`;

export const signMark = (key: LogSigningKey, mark: ArchiveMark): string => signNote(key, NAME, textOf(mark));

export const isSignedMark = (mark: ArchiveMark, note: string, keys: readonly LogPublicKey[]): boolean =>
  isSignedNote(note, NAME, textOf(mark), keys);

/** Whether both are of the same rows. */
export const isSameMark = (one: ArchiveMark, other: ArchiveMark): boolean => textOf(one) === textOf(other);
