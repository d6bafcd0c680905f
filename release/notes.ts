// Prints the notes of a release from CHANGELOG.md: what is below the heading of the version.
// Usage: npm run -s release-notes -- VERSION
import { readFileSync } from 'node:fs';

const [version = ''] = process.argv.slice(2);
const changelog = readFileSync(new URL('../CHANGELOG.md', import.meta.url), 'utf8');
const sections = changelog.split(/^## /m).slice(1);
/** A heading is `Unreleased`, or a version with its date: `0.2.0 - 2026-12-01`, in brackets or not. */
const versionOf = (section: string): string => /^\[?([^\s\]]+)/.exec(section)?.[1] ?? '';

const fail = (reason: string): void => {
  console.error(`${reason} CHANGELOG.md has: ${sections.map(versionOf).join(', ')}.`);
  process.exitCode = 1;
};

const found = sections.find((section) => versionOf(section) === version);
const notes = found?.slice(found.indexOf('\n') + 1).trim();
if (version === '') fail('Name a version: npm run -s release-notes -- VERSION.');
else if (notes === undefined) fail(`There is no version ${version}.`);
else if (notes === '') fail(`The version ${version} has no notes.`);
else console.log(notes);
