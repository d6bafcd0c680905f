// Profiles: the address of a vault and a key, in a file that its owner alone may read.
import {
  chmodSync,
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { nearestName } from '../../../src/platform/base/unknown-names.ts';
import { CliError, EXIT, usageError } from './exit-codes.ts';
import { cleanText, type Io, type Surroundings } from './io.ts';

export type Profile = { url: string; key: string };
export type Profiles = { current?: string; profiles: Record<string, Profile> };

/** Everyone but the owner. */
const OTHERS = 0o077;
const WRITTEN_BY_OTHERS = 0o022;
const NAME = /^[\w.-]{1,64}$/;

export const profilesPath = ({ env }: Pick<Surroundings, 'env'>): string =>
  join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'strongroom', 'profiles.json');

const isProfile = (value: unknown): value is Profile =>
  typeof (value as Profile | null)?.url === 'string' && typeof (value as Profile).key === 'string';

const parseProfiles = (text: string, path: string): Profiles => {
  const wrong = new CliError(
    `The file ${path} is not as strongroom login writes it. Remove it, and run strongroom login again.`,
    EXIT.file,
  );
  let parsed: Partial<Profiles> | null;
  try {
    parsed = JSON.parse(text) as Partial<Profiles> | null;
  } catch {
    throw wrong;
  }
  const profiles = parsed?.profiles;
  if (typeof profiles !== 'object' || profiles === null || !Object.values(profiles).every(isProfile)) throw wrong;
  return { ...(typeof parsed?.current === 'string' && { current: parsed.current }), profiles };
};

/** @throws CliError for a file that others may read, or that is damaged. */
export const readProfiles = (io: Pick<Surroundings, 'env'>): Profiles => {
  const path = profilesPath(io);
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { profiles: {} };
    throw new CliError(`The file ${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`, EXIT.file);
  }
  try {
    // The mode of the open file, not of its name: the name could lead elsewhere a moment later.
    const mode = fstatSync(file).mode & 0o777;
    const folder = dirname(path);
    if (statSync(folder).mode & WRITTEN_BY_OTHERS)
      throw new CliError(`Other users may replace files of ${folder}. Run: chmod 700 ${folder}`, EXIT.file);
    if (mode & OTHERS)
      throw new CliError(
        `The file ${path} has keys, and other users may use it (mode ${mode.toString(8)}). Run: chmod 600 ${path}`,
        EXIT.file,
      );
    return parseProfiles(readFileSync(file, 'utf8'), path);
  } finally {
    closeSync(file);
  }
};

/** Replaces the file at once, so that a reader never finds half of it. */
export const writeProfiles = (io: Pick<Surroundings, 'env'>, profiles: Profiles): void => {
  const path = profilesPath(io);
  const draft = `${path}.${process.pid}`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(draft, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
    chmodSync(draft, 0o600);
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new CliError(`The file ${path} cannot be written: ${(error as NodeJS.ErrnoException).code}.`, EXIT.file);
  }
};

/** @throws CliError for a name that a file or a shell would read in another way. */
export const checkProfileName = (name: string): void => {
  if (!NAME.test(name) || name === '__proto__')
    throw usageError('The name of a profile has 1 to 64 letters, digits, dots, dashes and underscores.');
};

const isLoopback = ({ hostname }: URL): boolean =>
  /^(?:localhost|\[::1\]|127(?:\.\d{1,3}){3})$/.test(hostname) || hostname.endsWith('.localhost');

/** @throws CliError for an address that is no URL, or would send the key in clear over a network. */
export const checkUrl = (text: string, io: Pick<Surroundings, 'env'>): string => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '' || url.hash !== '')
    throw usageError('The address must be an https URL, such as https://vault.example.com.');
  if (url.protocol === 'http:' && !isLoopback(url) && io.env['STRONGROOM_ALLOW_HTTP'] !== '1')
    throw usageError(
      'An http URL would send the key in clear over the network. Use https, or set STRONGROOM_ALLOW_HTTP=1.',
    );
  return url.href.replace(/\/+$/, '');
};

const checkKey = (key: string): string => {
  if (!/^[!-~]+$/.test(key)) throw usageError('The API key must have no blanks and no line ends.');
  return key;
};

export const toProfile = (url: string, key: string, io: Pick<Surroundings, 'env'>): Profile => ({
  url: checkUrl(url, io),
  key: checkKey(key),
});

const findProfile = ({ profiles }: Profiles, name: string): Profile => {
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (found) return found;
  const nearest = nearestName(name, Object.keys(profiles));
  const hint = nearest === undefined ? 'Run strongroom login.' : `Did you mean ${nearest}?`;
  throw new CliError(`There is no profile ${cleanText(name)}. ${hint}`, EXIT.usage);
};

/**
 * The vault of a command: of --profile, of STRONGROOM_URL and STRONGROOM_API_KEY, of STRONGROOM_PROFILE, of the profile that was
 * used last for `login` or `profile use`, in this order. A key of a variable never goes to the address of a profile, and a command
 * never to another address than that of the variable.
 */
export const chooseProfile = (io: Io, named: string | undefined): Profile => {
  const { STRONGROOM_API_KEY: key, STRONGROOM_URL: url, STRONGROOM_PROFILE: chosen } = io.env;
  if (named === undefined && key) {
    if (!url) throw usageError('STRONGROOM_API_KEY is set, and STRONGROOM_URL is not: set both, or use a profile.');
    return toProfile(url, key, io);
  }
  const stored = readProfiles(io);
  const name = named ?? (chosen || stored.current);
  if (name === undefined)
    throw new CliError(
      'No vault is chosen. Run strongroom login, or set STRONGROOM_URL and STRONGROOM_API_KEY.',
      EXIT.refused,
    );
  const profile = findProfile(stored, name);
  if (named === undefined && url && checkUrl(url, io) !== profile.url)
    throw usageError(
      `STRONGROOM_URL is set, and STRONGROOM_API_KEY is not: the profile ${name} has another address. Set both, or neither.`,
    );
  return toProfile(profile.url, profile.key, io);
};
