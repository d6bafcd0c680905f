// Samples of requests run as they are: a shell, Node and Python send what the sample was made of.
import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isInstalled } from '../../../test/support/programs.ts';
import { sampleLanguages, samplesOf, type SampleLanguage } from './request-samples.ts';

type Seen = { method: string; url: string; headers: NodeJS.Dict<string | string[]>; body: string };

let server: Server;
let base: string;
let seen: Seen[] = [];
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, headers, body: Buffer.concat(parts).toString() });
    response.end('answered');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

const commands: Record<SampleLanguage, [program: string, ...args: string[]]> = {
  curl: ['sh', '-s'],
  JavaScript: [process.execPath, '--input-type=module', '-'],
  Python: ['python3', '-'],
};

const KEY = 'svc_test_key';

/** Runs a sample, as a person who pastes it does. */
const run = async (language: SampleLanguage, sample: string): Promise<Seen> => {
  seen = [];
  const [program, ...args] = commands[language];
  const running = promisify(execFile)(program, args, { env: { ...process.env, SVC_API_KEY: KEY } });
  running.child.stdin?.end(sample);
  const { stdout } = await running;
  expect(stdout).toContain('answered');
  expect(seen).toHaveLength(1);
  return seen[0] as Seen;
};

/** Quotes, ends of strings and expansions of all three languages. */
const HOSTILE = `'; touch /tmp/x; echo '"\\" $HOME \`id\` $(id) \${process.exit(9)} """ {{ x }} \u2028 \n # é 💳`;
const body = { [HOSTILE]: HOSTILE, list: [null, true, false, 1.5, [], {}], text: '@/etc/passwd' };

describe.skipIf(!isInstalled('sample programs'))('a sample', () => {
  test.each(sampleLanguages)('in %s sends its body and headers as they are', async (language) => {
    const url = `${base}/tokens?q=${encodeURIComponent(HOSTILE)}`;
    const headers = { 'SVC-PROXY-URL': `https://a.example/'"$HOME\`id\`` };
    const got = await run(language, samplesOf({ method: 'POST', url, headers, body })[language]);
    expect([got.method, new URL(got.url, base).searchParams.get('q')]).toEqual(['POST', HOSTILE]);
    expect(JSON.parse(got.body)).toEqual(body);
    expect(got.headers).toMatchObject({
      'content-type': 'application/json',
      'svc-api-key': KEY,
      'svc-proxy-url': headers['SVC-PROXY-URL'],
    });
  });

  test.each(sampleLanguages)('in %s has neither body nor key where the operation takes none', async (language) => {
    const got = await run(language, samplesOf({ method: 'GET', url: `${base}/healthz`, hasKey: false })[language]);
    expect([got.method, got.url, got.body]).toEqual(['GET', '/healthz', '']);
    expect(got.headers['svc-api-key']).toBeUndefined();
    expect(got.headers['content-type']).toBeUndefined();
  });
});
