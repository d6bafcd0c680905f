// The files that an import writes: the result, the faults, and the state from which a stopped import continues.
import { constants, existsSync, readFileSync } from 'node:fs';
import { type FileHandle, open, rename, unlink, writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { csvCell } from '../platform/base/csv-cell.ts';
import { StartError } from '../platform/base/errors.ts';
import type { Json } from '../platform/json/json.ts';
import { UsageError } from './usage-error.ts';

const count = z.int().min(0);

const stateSchema = z.object({
  /** A digest of the input and the options: another import must not continue this one. */
  of: z.string(),
  /** The last row that the files account for. */
  at: count,
  created: count,
  existing: count,
  faults: count,
  resultBytes: count,
  faultBytes: count,
});

export type ImportState = z.infer<typeof stateSchema>;

const READABLE_BY_OWNER = 0o600;

/** @throws StartError for a write that the system refuses, such as on a full disk. */
const attempt = async <T>(path: string, write: () => Promise<T>): Promise<T> => {
  try {
    return await write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      `${path} cannot be written (${code}). Make room, then run the same command again: it continues where it stopped.`,
    );
  }
};

const csvField = (value: Json | undefined): string =>
  value === null || value === undefined ? '' : csvCell(typeof value === 'string' ? value : JSON.stringify(value));

/** A line of the result: CSV for a header, JSON without one. */
export const resultLine = (header: readonly string[] | undefined, columns: Record<string, Json>): string =>
  header === undefined
    ? `${JSON.stringify(columns)}\n`
    : `${header.map((name) => csvField(columns[name])).join(',')}\n`;

export const headerLine = (header: readonly string[]): string => `${header.map(csvCell).join(',')}\n`;

const readState = (path: string): ImportState | undefined => {
  if (!existsSync(path)) return undefined;
  try {
    return stateSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    throw new UsageError(`${path} is not the state of an import. Remove it, or name another --result.`);
  }
};

export type ImportFiles = {
  /** Where an earlier run stopped. */
  readonly state: ImportState;
  /** Appends lines, then records that they are written. @throws StartError. */
  write(result: string, faults: string, state: Omit<ImportState, 'of' | 'resultBytes' | 'faultBytes'>): Promise<void>;
  /** Removes the state: the import is complete. */
  finish(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Opens the files of an import: new ones, or those of an earlier run of the same import, cut to what its state says.
 * @throws UsageError for a result that exists without a state, or with that of another import.
 */
export const openImportFiles = async (result: string, of: string): Promise<ImportFiles> => {
  const statePath = `${result}.state`;
  const faultsPath = `${result}.faults`;
  const earlier = readState(statePath);
  if (earlier && earlier.of !== of)
    throw new UsageError(`${statePath} belongs to another file or other options. Name another --result.`);
  const { O_CREAT, O_EXCL, O_RDWR } = constants;
  const openOne = async (path: string, bytes: number | undefined): Promise<FileHandle> => {
    try {
      const file = await open(path, bytes === undefined ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, READABLE_BY_OWNER);
      if (bytes === undefined) return file;
      if ((await file.stat()).size < bytes) throw new UsageError(`${path} is shorter than ${statePath} says.`);
      await file.truncate(bytes);
      return file;
    } catch (error) {
      if (error instanceof UsageError) throw error;
      const { code } = error as NodeJS.ErrnoException;
      throw new UsageError(
        code === 'EEXIST'
          ? `${path} exists, and is not overwritten. Name another --result.`
          : `${path} cannot be opened (${code}). Name another --result.`,
      );
    }
  };
  const resultFile = await openOne(result, earlier?.resultBytes);
  const faultFile = await openOne(faultsPath, earlier?.faultBytes).catch(async (error: unknown) => {
    await resultFile.close();
    // Made just now, and empty.
    if (!earlier) await unlink(result);
    throw error;
  });
  const state = earlier ?? { of, at: 0, created: 0, existing: 0, faults: 0, resultBytes: 0, faultBytes: 0 };

  const append = (path: string, file: FileHandle, text: string, at: number): Promise<number> =>
    attempt(path, async () => {
      if (text === '') return at;
      const bytes = Buffer.from(text);
      for (let done = 0; done < bytes.length;)
        done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
      await file.datasync();
      return at + bytes.length;
    });

  return {
    state,
    write: async (resultText, faultText, counts) => {
      const resultBytes = await append(result, resultFile, resultText, state.resultBytes);
      const faultBytes = await append(faultsPath, faultFile, faultText, state.faultBytes);
      Object.assign(state, counts, { resultBytes, faultBytes });
      await attempt(statePath, async () => {
        await writeFile(`${statePath}.new`, JSON.stringify(state), { mode: READABLE_BY_OWNER });
        await rename(`${statePath}.new`, statePath);
      });
    },
    finish: () => attempt(statePath, () => unlink(statePath)),
    close: async () => {
      await resultFile.close();
      await faultFile.close();
    },
  };
};
