// The files of every version of the fields library that this server has, as the build left them.
import { readFileSync } from 'node:fs';

/** The script for pages, and script and style of the frames. */
export const FILE_NAMES = ['fields.js', 'frame.js', 'frame.css'] as const;

export type Integrity = {
  current: string;
  /** Digests by version and file, as the attribute `integrity` has them. */
  versions: Record<string, Record<string, string>>;
};

const read = (path: string): Buffer => readFileSync(new URL(`../../generated/fields/${path}`, import.meta.url));

export const readIntegrity = (): Integrity => JSON.parse(read('integrity.json').toString()) as Integrity;

export const readFile = (version: string, name: (typeof FILE_NAMES)[number]): Buffer => read(`${version}/${name}`);
