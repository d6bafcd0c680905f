// The file in which a development server leaves its address and its first API key, for scripts and for commands beside it.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from './config.ts';

const credentialsPath = (config: Config) => join(config.dataDir, 'dev-credentials.json');

/**
 * Written beside, flushed and renamed: a script that reads it sees all of it or none, after a crash too. Beside means in a directory
 * of its own: servers on one database may share the data directory and start at once, and one would rename what another wrote.
 */
export const writeCredentials = (config: Config, credentials: Record<string, unknown>): void => {
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const path = credentialsPath(config);
  const beside = mkdtempSync(`${path}.`);
  try {
    const draft = join(beside, 'draft');
    writeFileSync(draft, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
};

/** What the file holds; undefined where there is none, or none that a script could read. */
export const readCredentials = (config: Config): Record<string, unknown> | undefined => {
  try {
    return JSON.parse(readFileSync(credentialsPath(config), 'utf8')) as Record<string, unknown>;
  } catch {
    return undefined;
  }
};

/** The server's address may change between starts; what a script reads must not lag behind it. */
export const refreshBaseUrl = (config: Config, base_url: string): void => {
  const credentials = readCredentials(config);
  if (credentials && credentials['base_url'] !== base_url) writeCredentials(config, { ...credentials, base_url });
};
