// Tokens of SoftHSM2 with AES keys: a real PKCS #11 library, whose keys are in files.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Pkcs11Config } from '../../src/platform/crypto/pkcs11/client.ts';
import { childrenOf } from './process.ts';
import { isInstalled } from './programs.ts';

export const SOFTHSM_MODULE = '/usr/lib/softhsm/libsofthsm2.so';

export const hasSoftHsm = existsSync(SOFTHSM_MODULE) && isInstalled('softhsm2');

export const TOKEN_LABEL = 'HSM of tests';
export const TOKEN_PIN = '730918';

export type SoftHsm = ReturnType<typeof createToken>;

/** @param labels of keys. */
export const createToken = (labels: readonly string[]) => {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-hsm-'));
  const [file, tokens] = [join(directory, 'softhsm2.conf'), join(directory, 'tokens')];
  mkdirSync(tokens);
  writeFileSync(file, `directories.tokendir = ${tokens}\nobjectstore.backend = file\nlog.level = ERROR\n`);
  const environment = {
    SOFTHSM2_CONF: file,
    ...(process.env['NODE_COMPILE_CACHE'] && { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }),
  };
  const run = (program: string, ...args: string[]): void =>
    void execFileSync(program, args, { env: { PATH: process.env['PATH'], ...environment }, stdio: 'pipe' });
  const tool = (...args: string[]): void =>
    run('pkcs11-tool', '--module', SOFTHSM_MODULE, '--token-label', TOKEN_LABEL, '--login', ...args);
  const makeKey = (label: string, type = 'aes:32', ...flags: string[]): void => {
    const usage = flags.length > 0 ? flags : ['--sensitive', '--usage-decrypt'];
    tool('--pin', TOKEN_PIN, '--keygen', '--key-type', type, '--label', label, '--id', '01', ...usage);
  };
  run('softhsm2-util', '--init-token', '--free', '--label', TOKEN_LABEL, '--pin', TOKEN_PIN, '--so-pin', '99887766');
  for (const label of labels) makeKey(label);
  return {
    environment,
    makeKey,
    deleteKey: (label: string) => tool('--pin', TOKEN_PIN, '--delete-object', '--type', 'secrkey', '--label', label),
    changePin: (from: string, to: string) => tool('--pin', from, '--change-pin', '--new-pin', to),
    unplug: () => renameSync(tokens, `${tokens}-away`),
    plugIn: () => renameSync(`${tokens}-away`, tokens),
    config: (more: Partial<Pkcs11Config> = {}): Pkcs11Config => ({
      module: SOFTHSM_MODULE,
      token: TOKEN_LABEL,
      keys: [...labels],
      pin: TOKEN_PIN,
      environment,
      ...more,
    }),
    variables: (key: string): Record<string, string> => ({
      ...environment,
      MASTER_KEY_PROVIDER: 'pkcs11',
      PKCS11_MODULE: SOFTHSM_MODULE,
      PKCS11_TOKEN: TOKEN_LABEL,
      PKCS11_KEY: key,
      PKCS11_PIN: TOKEN_PIN,
    }),
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
};

/** Processes with the library that a process has started. */
export const libraryProcessesOf = (pid: number): number[] =>
  childrenOf(pid).filter((each) => readFileSync(`/proc/${each}/cmdline`, 'utf8').includes('/pkcs11/process'));
