// Writes the secrets for docker compose, a file for each, and .env. Values are random, or those of the files that are there.
// Existing files are never changed.
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomBase62 } from '../platform/crypto/digest.ts';
import { randomBytesFromKernel } from '../platform/crypto/random.ts';
import { percentDecoded } from '../platform/config/forms.ts';
import { StartError } from '../platform/base/errors.ts';
import { IS_IMAGE, SETUP } from '../platform/base/program.ts';

const ROOT_KEY_BYTES = 32;
/** 190 bits in base62, because the passwords are parts of URLs. */
const PASSWORD_LENGTH = 32;

/** The commands after `npm run setup`. */
export const COMPOSE_COMMANDS = [
  'docker compose up --build --wait',
  'docker compose run --rm -T api admin bootstrap --tenant-name Demo',
] as const;

/** Directory of docker-compose.yml of the vault in production mode, for those who are elsewhere: `npm run setup` writes there. */
export const COMPOSE_DIRECTORY = 'deploy/compose';

/** What says why `docker compose up` failed: it names the container only. */
export const COMPOSE_LOGS = 'docker compose logs migrate api';

/** Values by the names of their files. Undefined: it is not known. */
type Secrets = Record<
  | 'master_key'
  | 'owner_database_url'
  | 'server_database_url'
  | 'postgres_password'
  | 'owner_password'
  | 'server_password',
  string | undefined
>;

type Passwords = { owner: string | undefined; server: string | undefined };

const databaseUrl = (role: string, password: string | undefined): string | undefined =>
  password && `postgresql://strongroom_${role}:${encodeURIComponent(password)}@db:5432/strongroom`;

const secretsOf = (
  { owner, server }: Passwords,
  others: { master_key?: string; postgres_password?: string },
): Secrets => ({
  master_key: others.master_key,
  owner_database_url: databaseUrl('owner', owner),
  server_database_url: databaseUrl('server', server),
  postgres_password: others.postgres_password,
  owner_password: owner,
  server_password: server,
});

const newSecrets = (): Secrets => {
  const newPassword = (): string => randomBase62(PASSWORD_LENGTH, randomBytesFromKernel);
  const master_key = randomBytesFromKernel(ROOT_KEY_BYTES).toString('base64');
  return secretsOf({ owner: newPassword(), server: newPassword() }, { master_key, postgres_password: newPassword() });
};

/** A file of a role's password and the one of its address have the same value: either makes the other. */
const passwordOf = (folder: string, role: 'owner' | 'server'): string | undefined => {
  const textOf = (name: string): string | undefined => {
    const path = join(folder, name);
    return existsSync(path) ? readFileSync(path, 'utf8').trim() : undefined;
  };
  const url = textOf(`${role}_database_url`);
  return textOf(`${role}_password`) ?? (url && percentDecoded(URL.parse(url)?.password ?? ''));
};

/** Runs a write. @throws StartError if the system refuses it. */
const attempt = (path: string, write: () => void): void => {
  try {
    write();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(`${path} cannot be written (${code}). Run this as the owner of the directory: ${SETUP}`);
  }
};

/** The volume of the database has the old passwords and what is sealed under the old root key: both go together. */
const startAgain = (...files: string[]): string =>
  `If nothing is stored, remove it with the volumes and try again: docker compose down --volumes && rm -r ${files.join(' ')} && ${SETUP}`;

/**
 * Writes the missing files in a directory. Run by root, as in a container, it gives them to the owner of the directory.
 * @returns the names of the files that it wrote.
 * @throws StartError if nothing is missing, if secrets are lost that a new one would not replace, or if a file cannot be
 * written.
 */
export const setup = (directory: string): string[] => {
  const env = join(directory, '.env');
  const folder = join(directory, 'secrets');
  const isNew = !existsSync(env);
  const known = isNew
    ? newSecrets()
    : secretsOf({ owner: passwordOf(folder, 'owner'), server: passwordOf(folder, 'server') }, {});
  const missing = (Object.keys(known) as (keyof Secrets)[]).filter((name) => !existsSync(join(folder, name)));
  if (!isNew && missing.length === 0)
    throw new StartError(
      `${env} and ${folder} exist and stay as they are: another root key would not open what is sealed under this one. ${startAgain('.env', 'secrets')}`,
    );
  if (isNew && missing.length < Object.keys(known).length)
    throw new StartError(
      `${folder} exists, and ${env} does not: new passwords would not open the database that the old ones open. Put .env back. ${startAgain('secrets')}`,
    );
  const values = missing.map((name) => ({ name, value: known[name] }));
  const unknown = values.filter(({ value }) => !value).map(({ name }) => join('secrets', name));
  if (unknown.length > 0)
    throw new StartError(
      `${env} exists and stays as it is, and there is nothing to make ${unknown.join(', ')} of: put these files back. ${startAgain('.env', 'secrets')}`,
    );
  const { uid, gid } = statSync(directory);
  const isRoot = process.geteuid?.() === 0;
  const finish = (path: string, mode: number): void => {
    chmodSync(path, mode);
    if (isRoot) chownSync(path, uid, gid);
  };
  attempt(folder, () => {
    mkdirSync(folder, { recursive: true });
    finish(folder, 0o700);
  });
  for (const { name, value } of values) {
    const path = join(folder, name);
    attempt(path, () => {
      writeFileSync(path, `${value}\n`, { flag: 'wx' });
      // The container runs as another user, who must read the file. The directory keeps other users out.
      finish(path, 0o444);
    });
  }
  const written = values.map(({ name }) => join('secrets', name));
  if (!isNew) return written;
  attempt(env, () => {
    writeFileSync(env, '# Written by setup: settings for the compose file of production, such as its port.\n', {
      mode: 0o600,
      flag: 'wx',
    });
    finish(env, 0o600);
  });
  return ['.env', ...written];
};

/** What `setup` prints: the commands that follow. */
export const nextText = (written: readonly string[]): string =>
  [
    `Written: ${written.join(', ')}`,
    'Keep a copy of secrets/master_key in your secret manager: without it nothing in the vault opens again.',
    'Next:',
    '',
    // The container has the directory of the compose file, which is where its reader is.
    ...(IS_IMAGE ? [] : [`cd ${COMPOSE_DIRECTORY}`]),
    ...COMPOSE_COMMANDS,
    '',
    `Where a service does not start, this says why: ${COMPOSE_LOGS}`,
  ].join('\n');
