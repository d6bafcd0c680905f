// Reads and writes the file with the address and the first API key of a development server.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../platform/config/config.ts';

const credentialsPath = (config: Config) => join(config.dataDir, 'dev-credentials.json');

/**
 * Written to a draft, flushed and renamed: a script reads all of it or none, after a crash too. Each draft has a directory of its
 * own, since servers on one database may share the data directory and start at once.
 */
export const writeCredentials = (config: Config, credentials: Record<string, unknown>): void => {
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const path = credentialsPath(config);
  const directory = mkdtempSync(`${path}.`);
  try {
    const draft = join(directory, 'draft');
    writeFileSync(draft, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
};

/** Undefined where there is no file, or one that is not JSON. */
export const readCredentials = (config: Config): Record<string, unknown> | undefined => {
  try {
    return JSON.parse(readFileSync(credentialsPath(config), 'utf8')) as Record<string, unknown>;
  } catch {
    return undefined;
  }
};

/** The address of the server may change between starts. */
export const refreshBaseUrl = (config: Config, base_url: string): void => {
  const credentials = readCredentials(config);
  if (credentials && credentials['base_url'] !== base_url) writeCredentials(config, { ...credentials, base_url });
};
