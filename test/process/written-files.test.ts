// Every command that writes a file: what it says where it cannot, and that in a container it writes nothing that would be lost.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandName, commandExamples, fileUses, writtenPath } from '../../src/cli/command-table.ts';
import { failing, shareServer } from '../support/place.ts';
import { root, sourceEnvironment } from '../support/process.ts';

/** What the images set. */
const IMAGE = { STRONGROOM_COMMAND: 'docker exec CONTAINER strongroom' };

test('the table says of each file whether the command reads it or writes it', () => {
  expect(Object.keys(fileUses).length).toBeGreaterThan(10);
  expect(Object.entries(fileUses).filter(([, use]) => use === undefined)).toEqual([]);
});

describe('commands that write a file', () => {
  const here = shareServer();
  let place: string;
  let recipient: string;

  beforeAll(async () => {
    place = mkdtempSync(join(tmpdir(), 'strongroom-written-'));
    recipient = await identityToRecipient(await generateX25519Identity());
    writeFileSync(join(place, 'in.jsonl'), '{"id":"one","data":"value"}\n');
  });
  afterAll(() => rmSync(place, { recursive: true, force: true }));

  /** The words of each command that writes a file, for a path. */
  const commands: Record<string, (path: string) => string[]> = {
    backup: (path) => ['backup', path, '--to', recipient],
    export: (path) => ['export', path, '--to', recipient],
    import: (path) => ['import', join(place, 'in.jsonl'), '--format', 'jsonl', '--result', path],
    'erasures export': (path) => ['erasures', 'export', path],
    'logs archive': (path) => ['logs', 'archive', path],
    'logs export': (path) => ['logs', 'export', path],
    'logs keygen': (path) => ['logs', 'keygen', path],
  };

  test('are these', () => {
    const names = Object.keys(commandExamples) as CommandName[];
    const writing = names.filter((name) => writtenPath(name, 'FILE', {}) !== undefined);
    // The secrets of compose have tests of their own, in a directory that is their operand.
    expect(writing.toSorted()).toEqual([...Object.keys(commands), 'setup'].toSorted());
  });

  test.for(Object.keys(commands))('%s says in a sentence that a place cannot be written', async (name) => {
    const words = (commands[name] as (path: string) => string[])('/proc/none/file');
    const { code, stderr } = await failing(here.dataDir, words);
    expect([code, stderr]).toEqual([expect.any(Number), expect.stringContaining('/proc/none')]);
    expect(stderr.trim().split('\n').at(-1)).toMatch(/^\S.*\.$/);
    expect(stderr).not.toMatch(/\n\s+at |Unhandled|unexpected/);
  });

  test.for(Object.keys(commands))('%s writes nothing that would go with a container', async (name) => {
    const path = join(place, `${name.replace(' ', '-')}.out`);
    const { code, stderr } = await failing(here.dataDir, (commands[name] as (path: string) => string[])(path), IMAGE);
    expect([code, stderr]).toEqual([
      name === 'import' || name === 'export' ? 2 : 1,
      expect.stringMatching(/would be lost with it\. Nothing was written\..* \/files\//),
    ]);
    expect(readdirSync(place)).toEqual(['in.jsonl']);
  });

  test('setup writes no secrets that would go with a container', async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'strongroom-written-setup-'));
    const refused = await promisify(execFile)(process.execPath, [join(root, 'src/cli/main.ts'), 'setup'], {
      cwd,
      env: { ...sourceEnvironment, ...IMAGE },
    }).catch((error: { stderr: string }) => error);
    expect(refused.stderr).toContain('would be lost with it');
    expect(readdirSync(cwd)).toEqual([]);
    rmSync(cwd, { recursive: true });
  });

  test.runIf(process.geteuid?.() === 0)('a volume takes a backup, and a link out of it does not', async () => {
    const volume = join(place, 'volume');
    mkdirSync(volume);
    symlinkSync(place, join(volume, 'out'));
    const backUp = (path: string) =>
      promisify(execFile)(
        'unshare',
        ['--mount', 'sh', '-c', 'mount --bind "$0" "$0" && exec "$@"', volume, process.execPath].concat(
          join(root, 'src/cli/main.ts'),
          ['backup', path, '--to', recipient],
        ),
        { env: { ...sourceEnvironment, ...IMAGE, DATA_DIR: here.dataDir } },
      ).catch((error: { stdout: string; stderr: string }) => error);
    expect((await backUp(join(volume, 'v.age'))).stdout).toContain(`Written: ${join(volume, 'v.age')}`);
    expect(readFileSync(join(volume, 'v.age')).subarray(0, 21).toString()).toBe('age-encryption.org/v1');
    expect((await backUp(join(volume, 'out/w.age'))).stderr).toContain('would be lost with it');
    expect(existsSync(join(place, 'w.age'))).toBe(false);
  });

  test('reactor run takes code from standard input', async () => {
    const running = promisify(execFile)(
      process.execPath,
      [join(root, 'src/cli/main.ts'), 'reactor', 'run', '-', '--json'],
      {
        env: sourceEnvironment,
      },
    );
    running.child.stdin?.end('module.exports = async () => ({ raw: 2 });');
    expect(JSON.parse((await running).stdout)).toMatchObject({ ok: true, value: { raw: 2 } });
  });
});
