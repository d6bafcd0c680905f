// The version of this build, from package.json, and its commit, which the build writes.
import { readFileSync } from 'node:fs';

export const version = (
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;

const readCommit = (): string | null => {
  try {
    return readFileSync(new URL('../../generated/commit', import.meta.url), 'utf8').trim() || null;
  } catch {
    return null;
  }
};

/** `npm run build` writes it (release/commit.ts); null in the source, and where neither git nor COMMIT named it. */
export const commit = readCommit();
