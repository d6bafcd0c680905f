// Writes the commit of the build into dist: from COMMIT, as the image's build sets it, or from git.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Empty where there is no git, or this is no checkout. */
const git = (...args: string[]): string => {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return '';
  }
};

/** A directory of another repository, in which an archive of this one was unpacked, has other commits. */
const isCheckout = git('rev-parse', '--show-prefix') === '' && git('ls-files', 'release/commit.ts') !== '';
const fromGit = isCheckout ? git('rev-parse', 'HEAD') + (git('status', '--porcelain') === '' ? '' : '+changes') : '';
writeFileSync(`${root}dist/generated/commit`, `${process.env['COMMIT'] || fromGit}\n`);
