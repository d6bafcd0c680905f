// Messages of webhooks, verified in Python: by the published package `standardwebhooks`, and by its documented algorithm alone.
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDelivering, type Delivering } from '../../src/modules/webhooks/deliver.ts';
import { findProgram, isInstalled, type ProgramName } from '../support/programs.ts';
import { startServerBefore, type TestServer } from '../support/server.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

/** Each reads a list of { secret, headers, body } and prints whether it accepts each. */
const READ = 'import json, sys\nmessages = json.load(sys.stdin)\n';
const PRINT = `
def accepts(message):
    try:
        return verify(message) is not None
    except Exception:
        return False

print(json.dumps([accepts(message) for message in messages]))
`;
const verifiers: Record<string, { program: ProgramName; code: string }> = {
  'the package of PyPI': {
    program: 'python3-standardwebhooks',
    code: `${READ}from standardwebhooks import Webhook

def verify(message):
    return Webhook(message["secret"]).verify(message["body"], message["headers"])
${PRINT}`,
  },
  'hmac of the standard library': {
    program: 'sample programs',
    code: `${READ}import base64, hashlib, hmac

def verify(message):
    headers = message["headers"]
    key = base64.b64decode(message["secret"][len("whsec_"):])
    signed = ".".join([headers["webhook-id"], headers["webhook-timestamp"], message["body"]])
    digest = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    for each in headers["webhook-signature"].split(" "):
        if hmac.compare_digest(each, "v1," + digest):
            return True
${PRINT}`,
  },
};

type Message = { secret: string; headers: Record<string, string>; body: string };

/** @param program runs the code; every Python that has the module will do. */
const verifyBy = ({ program, code }: { program: ProgramName; code: string }, messages: Message[]): Promise<boolean[]> =>
  new Promise((resolve, reject) => {
    const python = program === 'sample programs' ? 'python3' : (findProgram(program) as string);
    const child = execFile(python, ['-c', code], (error, stdout) =>
      error ? reject(error) : resolve(JSON.parse(stdout) as boolean[]),
    );
    child.stdin?.end(JSON.stringify(messages));
  });

let upstream: Upstream;
let server: TestServer;
let delivering: Delivering;
beforeAll(async () => {
  upstream = await startUpstream({ answer: (_, response) => void response.writeHead(204).end() });
  server = await startServerBefore({ 'upstream.test': upstream.port });
  delivering = createDelivering(server.ctx);
});
afterAll(async () => {
  await delivering?.stop();
  await server?.close();
  await upstream?.close();
});

describe.each(Object.entries(verifiers))('%s', (_, verifier) => {
  test.skipIf(!isInstalled(verifier.program))('accepts our messages, also while a secret changes', async () => {
    const { body: made } = await server.request('POST', '/webhooks', {
      json: { name: 'W', url: `https://upstream.test:${upstream.port}/`, events: ['token.created'] },
    });
    const { body: rotated } = await server.request('POST', `/webhooks/${made.id}/rotate-secret`);
    await server.request('POST', '/tokens', { json: { data: 'x' } });
    upstream.received.length = 0;
    await delivering.settle();
    const [received] = upstream.received;
    await server.request('DELETE', `/webhooks/${made.id}`);
    const headers = Object.fromEntries((received?.headers ?? []).map(([name, value]) => [name.toLowerCase(), value]));
    const body = String(received?.body);
    const message: Message = { secret: made.secret, headers, body };
    const otherSecret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    const later = { ...headers, 'webhook-timestamp': String(Number(headers['webhook-timestamp']) + 1) };
    const messages: Message[] = [
      message,
      { ...message, secret: rotated.secret },
      { ...message, secret: otherSecret },
      { ...message, body: body.replace('token.created', 'token.deleted') },
      { ...message, headers: { ...headers, 'webhook-id': 'another' } },
      { ...message, headers: later },
    ];
    expect(await verifyBy(verifier, messages)).toEqual([true, true, false, false, false, false]);
  });
});
