// The systemd units hold, by systemd's own tools: they are valid, hardened, and let the wall around tenants' code start.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { SERVER_FLAGS } from '../src/cli/become-server.ts';
import { environmentSchema } from '../src/platform/config/config.ts';
import { allowedCalls } from '../src/platform/sandbox/host/system-calls.ts';
import { root } from './support/process.ts';
import { isInstalled } from './support/programs.ts';
import { STOP_MS, STOP_WORKERS_MS } from '../src/platform/base/times.ts';

const UNITS = ['strongroom.service', 'strongroom-migrate.service'] as const;
/** Of ten; a service without any setting has 9.6. Node needs writable code and the network, which count. */
const EXPOSURE_MAX = 20;

const read = (unit: string): string => readFileSync(join(root, 'deploy/systemd', unit), 'utf8');
const valuesOf = (text: string, name: string): string[] =>
  [...text.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value as string);
const server = read('strongroom.service');

test('the units run programs of the package, with flags and variables that exist', () => {
  const commands = UNITS.map((unit) => valuesOf(read(unit), 'ExecStart')[0]?.split(' ') ?? []);
  for (const words of commands) {
    const program = words
      .find((word) => word.endsWith('.cjs'))
      ?.replace('/opt/strongroom/node_modules/strongroom/', '');
    expect(existsSync(join(root, program as string)), program).toBe(true);
  }
  expect(commands[0]?.slice(1, -1)).toEqual(SERVER_FLAGS);
  const names = UNITS.flatMap((unit) => valuesOf(read(unit), 'Environment'))
    .flatMap((value) => value.split(' '))
    .map((pair) => pair.split('=')[0]?.replace(/_FILE$/, ''));
  expect(names.filter((name) => !Object.hasOwn(environmentSchema.shape, name as string))).toEqual([]);
});

test('secrets are credentials, and the server has the longest stop to end in', () => {
  for (const unit of UNITS) {
    expect(valuesOf(read(unit), 'LoadCredential').map((value) => value.split(':')[0])).toEqual([
      'master_key',
      'database_url',
    ]);
    expect(valuesOf(read(unit), 'Environment').join(' ')).toContain('MASTER_KEY_FILE=%d/master_key');
  }
  expect(valuesOf(server, 'LoadCredential').join(' ')).not.toContain('owner');
  // With DRAIN_SECONDS: docs/operations/processes.md.
  expect(Number(valuesOf(server, 'TimeoutStopSec')[0])).toBeGreaterThanOrEqual(5 + (STOP_MS + STOP_WORKERS_MS) / 1000);
});

describe.skipIf(!isInstalled('systemd'))('by systemd-analyze', () => {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-units-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  const analyze = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    return { status, output: stdout + stderr };
  };

  test.each(UNITS)('%s is valid', (unit) => {
    // Node is where this test has it: systemd looks for the program.
    const path = join(directory, unit);
    writeFileSync(path, read(unit).replace('/usr/bin/node', process.execPath));
    expect(analyze('verify', '--man=no', path)).toEqual({ status: 0, output: '' });
    writeFileSync(path, read(unit).replace('ProtectSystem=strict', 'ProtectSystem=somewhat'));
    expect(analyze('verify', '--man=no', path).output).toContain('somewhat');
  });

  test.each(UNITS)('%s is hardened', (unit) => {
    const path = join(root, 'deploy/systemd', unit);
    const { status, output } = analyze('security', '--offline=true', `--threshold=${EXPOSURE_MAX}`, path);
    expect(status, output.split('\n').at(-2)).toBe(0);
  });

  test('the filter of system calls lets the wall start', () => {
    const groups = new Map<string, string[]>();
    let group = '';
    for (const line of execFileSync('systemd-analyze', ['syscall-filter'], { encoding: 'utf8' }).split('\n')) {
      // The list ends with calls of the kernel that are in no group.
      if (line.startsWith('@')) groups.set((group = line.trim()), []);
      else if (line.startsWith('#')) group = '';
      else if (/^ {4}[@a-z]/.test(line)) groups.get(group)?.push(line.trim());
    }
    const expand = (name: string): string[] =>
      name.startsWith('@') ? (groups.get(name) ?? []).flatMap(expand) : [name];
    const allowed = new Set(valuesOf(server, 'SystemCallFilter').flatMap((value) => value.split(' ').flatMap(expand)));
    expect(allowed.size).toBeGreaterThan(200);
    const launcher = readFileSync(join(root, 'src/platform/sandbox/host/launcher.ts'), 'utf8');
    const calls = [...launcher.matchAll(/syscall\(\$\{number\.(\w+)\}/g)].map(([, name]) => name as string);
    expect(calls).toEqual(expect.arrayContaining(['landlock_restrict_self', 'seccomp', 'prctl']));
    const needed = [...calls, ...allowedCalls.map(({ name }) => name)];
    // What the filter of the unit refuses, an executor could not do.
    expect(needed.filter((name) => !allowed.has(name))).toEqual([]);
    expect(['ptrace', 'mount', 'bpf', 'kexec_load', 'init_module'].filter((name) => allowed.has(name))).toEqual([]);
  });
});
