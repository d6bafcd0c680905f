// Finds the package `strongroom` whose server a test starts.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);

const resolveFrom = (file: string): string | undefined => {
  try {
    return dirname(createRequire(file).resolve('strongroom/package.json'));
  } catch {
    return undefined;
  }
};

const isServer = (directory: string): boolean => {
  try {
    const { name } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as { name?: string };
    return name === 'strongroom';
  } catch {
    return false;
  }
};

/** The checkout that a file is in. */
const findAbove = (file: string): string | undefined => {
  const directory = dirname(file);
  if (isServer(directory)) return directory;
  return directory === file ? undefined : findAbove(directory);
};

/**
 * @param given by the caller of startVault.
 * @returns the directory of an installed package: the given one, that of the test's project, that beside this package, or this checkout.
 * @throws Error.
 */
export const findServer = (given: string | undefined): string => {
  const server =
    given === undefined
      ? (resolveFrom(join(process.cwd(), 'package.json')) ?? resolveFrom(here) ?? findAbove(here))
      : resolve(given);
  if (server === undefined)
    throw new Error(
      'The package strongroom, whose server a test starts, is not installed. Install it beside @strongroom/testing, or name its directory: startVault({ server })',
    );
  if (!existsSync(join(server, 'bin/start.cjs')))
    throw new Error(
      `The directory ${server} has no server of Strongroom: startVault({ server }) names that of the package`,
    );
  if (!existsSync(join(server, 'dist/main.js'))) throw new Error(`The server in ${server} is not built: npm run build`);
  return server;
};
