// Runs the developers' command line in this process, with a directory, an environment and streams of its own.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { afterAll } from 'vitest';
import { runCli } from '../../packages/cli/src/main.ts';
import type { Stdin } from '../../packages/cli/src/io.ts';

export type CliResult = { code: number; out: string; err: string };

export type CliOptions = {
  stdin?: string | Uint8Array;
  /** Text that is typed at a terminal: after it is asked for without echo, or at once. */
  typed?: string;
  cooked?: boolean;
  env?: Record<string, string | undefined>;
  sleep?: (ms: number) => Promise<void>;
};

/** As a terminal: characters arrive one by one, and raw mode is asked for before. */
const createTerminal = (typed: string, isCooked = false): Stdin => {
  const stream = new PassThrough() as unknown as Stdin & PassThrough;
  stream.isTTY = true;
  let isRaw = false;
  stream.setRawMode = (wanted) => {
    if (wanted && !isRaw) setImmediate(() => [...typed].forEach((character) => stream.write(character)));
    return (isRaw = wanted);
  };
  if (isCooked) stream.write(typed);
  return stream;
};

const createSink = (): { stream: Writable; text(): string } => {
  let text = '';
  const write = (chunk: Buffer, _: string, done: () => void): void => {
    text += chunk.toString('utf8');
    done();
  };
  return { stream: new Writable({ write }), text: () => text };
};

/** A person with a home of their own, who works with one vault by variables, unless `env` says otherwise. */
export const useCli = (vault: () => { base_url: string; api_key: string }) => {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-cli-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const run = async (argv: readonly string[], options: CliOptions = {}): Promise<CliResult> => {
    const [out, err] = [createSink(), createSink()];
    const { base_url, api_key } = vault();
    const code = await runCli(argv, {
      stdin:
        options.typed === undefined
          ? (Readable.from([Buffer.from(options.stdin ?? '')]) as Stdin)
          : createTerminal(options.typed, options.cooked),
      stdout: out.stream,
      stderr: err.stream,
      env: { HOME: directory, STRONGROOM_URL: base_url, STRONGROOM_API_KEY: api_key, ...options.env },
      directory,
      ...(options.sleep && { sleep: options.sleep }),
    });
    return { code, out: out.text(), err: err.text() };
  };
  /** Runs a command that must succeed, and reads its lines of JSON. */
  const json = async (argv: readonly string[], options: CliOptions = {}): Promise<any[]> => {
    const { code, out, err } = await run([...argv, '--json'], options);
    if (code !== 0) throw new Error(`strongroom ${argv.join(' ')} exited with ${code}: ${err}`);
    return out
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  };
  return { directory, run, json };
};
