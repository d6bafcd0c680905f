// Reads and writes the files with the address and the first API key of a development server.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../platform/config/config.ts';

const credentialsPath = (config: Config) => join(config.dataDir, 'dev-credentials.json');

/** The file with the key alone, for shells: `$(cat ./data/dev-api-key)`. */
export const keyPath = (config: Config): string => join(config.dataDir, 'dev-api-key');

/**
 * Writes a file to a draft, flushed and renamed: a script reads all of it or none, after a crash too. Each draft has a directory of its
 * own, since servers on one database may share the data directory and start at once.
 */
const replaceFile = (path: string, text: string): void => {
  const directory = mkdtempSync(`${path}.`);
  try {
    const draft = join(directory, 'draft');
    writeFileSync(draft, text, { mode: 0o600, flush: true });
    renameSync(draft, path);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
};

export const writeCredentials = (config: Config, credentials: Record<string, unknown>): void => {
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const { api_key } = credentials;
  if (typeof api_key === 'string') replaceFile(keyPath(config), `${api_key}\n`);
  replaceFile(credentialsPath(config), `${JSON.stringify(credentials, null, 2)}\n`);
};

/** Undefined where there is no file, or one that is not JSON. */
export const readCredentials = (config: Config): Record<string, unknown> | undefined => {
  try {
    return JSON.parse(readFileSync(credentialsPath(config), 'utf8')) as Record<string, unknown>;
  } catch {
    return undefined;
  }
};

const readKey = (config: Config): string | undefined => {
  try {
    return readFileSync(keyPath(config), 'utf8').trim();
  } catch {
    return undefined;
  }
};

/** The address of the server may change between starts; data directories of earlier releases have no file of the key alone. */
export const refreshBaseUrl = (config: Config, base_url: string): void => {
  const credentials = readCredentials(config);
  const isCurrent = credentials?.['base_url'] === base_url && credentials['api_key'] === readKey(config);
  if (credentials && !isCurrent) writeCredentials(config, { ...credentials, base_url });
};
