// Writes the secrets for docker compose: .env for the database, and a file for each secret of the server.
// Values are random, or those of an earlier .env. Existing files are never changed.
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { randomBase62 } from '../platform/crypto/digest.ts';
import { randomBytesFromKernel } from '../platform/crypto/random.ts';
import { StartError } from '../platform/errors.ts';

const ROOT_KEY_BYTES = 32;
/** 190 bits in base62, because the passwords are parts of URLs. */
const PASSWORD_LENGTH = 32;

/** The commands after `npm run setup`. */
export const COMPOSE_COMMANDS = [
  'docker compose up --build --wait',
  'docker compose run --rm -T api bootstrap --tenant-name Demo',
] as const;

const passwordNames = ['POSTGRES_PASSWORD', 'OWNER_PASSWORD', 'SERVER_PASSWORD'] as const;

type Secrets = Record<(typeof passwordNames)[number] | 'MASTER_KEY', string>;

const newSecrets = (): Secrets => {
  const newPassword = (): string => randomBase62(PASSWORD_LENGTH, randomBytesFromKernel);
  return {
    MASTER_KEY: randomBytesFromKernel(ROOT_KEY_BYTES).toString('base64'),
    POSTGRES_PASSWORD: newPassword(),
    OWNER_PASSWORD: newPassword(),
    SERVER_PASSWORD: newPassword(),
  };
};

/** Runs a write. @throws StartError if the system refuses it. */
const attempt = (path: string, write: () => void): void => {
  try {
    write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(`${path} cannot be written (${code}). Run this as the owner of the directory: npm run setup`);
  }
};

const databaseUrl = (role: string, password: string): string =>
  `postgresql://${role}:${encodeURIComponent(password)}@db:5432/strongroom`;

/**
 * Writes the missing files in a directory.
 * @returns the names of the files that it wrote.
 * @throws StartError if nothing is missing, if secrets are lost that a new one would not replace, or if a file cannot be
 * written.
 */
export const setup = (directory: string): string[] => {
  const env = join(directory, '.env');
  const folder = join(directory, 'secrets');
  const isNew = !existsSync(env);
  const secrets: Partial<Secrets> = isNew ? newSecrets() : parseEnv(readFileSync(env, 'utf8'));
  const { MASTER_KEY, OWNER_PASSWORD, SERVER_PASSWORD } = secrets;
  const files = {
    master_key: MASTER_KEY,
    owner_database_url: OWNER_PASSWORD && databaseUrl('strongroom_owner', OWNER_PASSWORD),
    server_database_url: SERVER_PASSWORD && databaseUrl('strongroom_server', SERVER_PASSWORD),
  };
  const missing = Object.entries(files).filter(([name]) => !existsSync(join(folder, name)));
  if (!isNew && missing.length === 0)
    throw new StartError(
      `${env} and ${folder} exist and stay as they are: another root key would not open what is sealed under this one. If nothing is, remove them and try again: rm -r .env secrets && npm run setup`,
    );
  if (isNew && missing.length < Object.keys(files).length)
    throw new StartError(
      `${folder} exists, and ${env} does not: new passwords would not open the database that the old ones open. Put .env back. If nothing is stored, remove secrets and try again: rm -r secrets && npm run setup`,
    );
  const unknown = missing.filter(([, value]) => !value).map(([name]) => name);
  if (unknown.length > 0)
    throw new StartError(
      `${env} exists and stays as it is, and it has nothing to make ${unknown.map((name) => join('secrets', name)).join(', ')} of: put these files back, or add MASTER_KEY, OWNER_PASSWORD and SERVER_PASSWORD (docs/operations/docker.md). If nothing is stored, remove it and try again: rm .env && npm run setup`,
    );
  attempt(folder, () => {
    mkdirSync(folder, { recursive: true });
    chmodSync(folder, 0o700);
  });
  for (const [name, value] of missing) {
    const path = join(folder, name);
    attempt(path, () => {
      writeFileSync(path, `${value}\n`, { flag: 'wx' });
      // The container runs as another user, who must read the file. The directory keeps other users out.
      chmodSync(path, 0o444);
    });
  }
  const written = missing.map(([name]) => join('secrets', name));
  if (!isNew) return written;
  const lines = passwordNames.map((name) => `${name}=${secrets[name]}\n`);
  const text = `# Passwords of the database, written by npm run setup for docker compose.\n${lines.join('')}# A new vault has no unsigned rows.\nREQUIRE_SIGNED_ROWS=true\n`;
  attempt(env, () => writeFileSync(env, text, { mode: 0o600, flag: 'wx' }));
  return ['.env', ...written];
};
