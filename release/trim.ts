// Deletes from a node_modules what nothing reads at run time: types, source maps, documents, tests, sources of native code.
// Usage: node release/trim.ts DIRECTORY   For a copy: a checkout needs them.
import { readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';

const UNUSED_FILE = /\.(?:map|[cm]?ts|flow|md|markdown|tgz|c|cc|cpp|h|hpp|gyp|gypi)$/i;
/** Licences stay with what they are about, whatever their suffix. */
const LICENCE = /^(?:licen[cs]e|notice|copying)/i;
/** In the directory of a package, beside its package.json. */
const UNUSED_DIRECTORIES = new Set(
  'test tests __tests__ docs example examples native-example benchmark benchmarks bench coverage .github .vscode man'.split(
    ' ',
  ),
);
/** Binaries for this system: the image has glibc. */
const PREBUILD = `linux-${process.arch}`;

const remove = (path: string): void => rmSync(path, { recursive: true, force: true });

export const trim = (directory: string): void => {
  const entries = readdirSync(directory, { withFileTypes: true });
  const isPackage = entries.some(({ name }) => name === 'package.json');
  for (const entry of entries) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) {
      const isOther =
        (basename(directory) === 'prebuilds' && entry.name !== PREBUILD) || entry.name.startsWith('musl_');
      if (isOther || (isPackage && UNUSED_DIRECTORIES.has(entry.name)) || entry.name === '.bin') remove(path);
      else trim(path);
    } else if ((UNUSED_FILE.test(entry.name) && !LICENCE.test(entry.name)) || /\bmusl\.node$/.test(entry.name))
      remove(path);
  }
};

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined || basename(directory) !== 'node_modules') {
    console.error('Name a directory node_modules, a copy: node release/trim.ts DIRECTORY');
    process.exit(1);
  }
  trim(directory);
}
