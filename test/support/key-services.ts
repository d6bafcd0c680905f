// Key services that speak the protocols of Vault's transit engine and of AWS KMS, with real encryption, and can be made to fail.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** `down`: closes connections; `slow`: never answers; `rubbish`: a page of 200; `busy`: refuses two of three calls. */
export type Failure = 'none' | 'down' | 'slow' | 'rubbish' | 'busy' | 'forbidden';

export type KeyServiceServer = {
  url: string;
  failure: Failure;
  calls: number;
  close(): Promise<void>;
};

const sealed = (key: Buffer, plain: Buffer, aad: string): Buffer => {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(aad));
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
};

const opened = (key: Buffer, bytes: Buffer, aad: string): Buffer | undefined => {
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAAD(Buffer.from(aad));
    decipher.setAuthTag(bytes.subarray(-16));
    return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
  } catch {
    return undefined;
  }
};

const bodyOf = async (request: IncomingMessage): Promise<any> => {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
};

type Reply = { status: number; body: object };

const start = async (
  reply: (request: IncomingMessage, body: any) => Reply,
  forbidden: Reply,
): Promise<KeyServiceServer> => {
  const service: KeyServiceServer = { url: '', failure: 'none', calls: 0, close: async () => undefined };
  const send = (response: ServerResponse, { status, body }: Reply): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const server: Server = createServer((request, response) => {
    service.calls += 1;
    const { failure } = service;
    if (failure === 'down') return void request.socket.destroy();
    if (failure === 'slow') return;
    if (failure === 'rubbish') return void response.writeHead(200).end('<html>A page</html>');
    if (failure === 'busy' && service.calls % 3 !== 0) return send(response, { status: 503, body: {} });
    if (failure === 'forbidden') return send(response, forbidden);
    void bodyOf(request).then((body) => send(response, reply(request, body)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  service.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  service.close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return service;
};

export const TRANSIT_TOKEN = 'hvs.test';
export const APPROLE = { role_id: 'role-of-strongroom', secret_id: 'secret-of-strongroom' };

/** `keys` holds the versions of each key; `rotate` adds one. */
export type TransitServer = KeyServiceServer & { rotate(key: string): void; revokeTokens(): void; logins: number };

export const startTransit = async (names: readonly string[]): Promise<TransitServer> => {
  const keys = new Map(names.map((name) => [name, [randomBytes(32)]]));
  const tokens = new Set([TRANSIT_TOKEN]);
  const refused = (status: number): Reply => ({ status, body: { errors: ['refused'] } });
  const service = await start((request, body) => {
    const path = request.url?.replace('/v1/', '') ?? '';
    if (path === 'auth/approle/login') {
      if (body.role_id !== APPROLE.role_id || body.secret_id !== APPROLE.secret_id) return refused(400);
      const client_token = `hvs.${randomBytes(8).toString('hex')}`;
      tokens.add(client_token);
      (service as TransitServer).logins += 1;
      return { status: 200, body: { auth: { client_token, lease_duration: 3600 } } };
    }
    if (!tokens.has(String(request.headers['x-vault-token']))) return refused(403);
    const [, mount, action, name = ''] = /^([^/]+)\/(encrypt|decrypt)\/([^/]+)$/.exec(path) ?? [];
    const versions = keys.get(name);
    if (mount !== 'transit' || !versions) return refused(404);
    const aad = body.associated_data ?? '';
    if (action === 'encrypt') {
      const bytes = sealed(versions.at(-1) as Buffer, Buffer.from(body.plaintext, 'base64'), aad);
      return { status: 200, body: { data: { ciphertext: `vault:v${versions.length}:${bytes.toString('base64')}` } } };
    }
    const [, version = '', text = ''] = /^vault:v(\d+):(.*)$/.exec(body.ciphertext) ?? [];
    const key = versions[Number(version) - 1];
    const plain = key && opened(key, Buffer.from(text, 'base64'), aad);
    return plain ? { status: 200, body: { data: { plaintext: plain.toString('base64') } } } : refused(400);
  }, refused(403));
  return Object.assign(service, {
    logins: 0,
    rotate: (key: string) => void keys.get(key)?.push(randomBytes(32)),
    revokeTokens: () => tokens.clear(),
  });
};

export const kmsArn = (id: string): string => `arn:aws:kms:eu-central-1:111122223333:key/${id}`;

/** What the SDK takes as credentials. */
export const AWS_CREDENTIALS = { AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE', AWS_SECRET_ACCESS_KEY: 'secret' };

export const startKms = (ids: readonly string[]): Promise<KeyServiceServer> => {
  const keys = new Map(ids.map((id) => [kmsArn(id), randomBytes(32)]));
  const refused = (name: string): Reply => ({ status: 400, body: { __type: name, message: 'refused' } });
  const contextOf = (context: Record<string, string> = {}): string =>
    JSON.stringify(Object.entries(context).toSorted());
  return start((request, body) => {
    if (
      !/^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/eu-central-1\/kms\//.test(request.headers.authorization ?? '')
    )
      return refused('UnrecognizedClientException');
    const key = keys.get(body.KeyId);
    if (!key) return refused('NotFoundException');
    const aad = contextOf(body.EncryptionContext);
    if (request.headers['x-amz-target'] === 'TrentService.Encrypt') {
      const bytes = sealed(key, Buffer.from(body.Plaintext, 'base64'), aad);
      return { status: 200, body: { CiphertextBlob: bytes.toString('base64'), KeyId: body.KeyId } };
    }
    const plain = opened(key, Buffer.from(body.CiphertextBlob, 'base64'), aad);
    if (!plain) return refused('InvalidCiphertextException');
    return { status: 200, body: { Plaintext: plain.toString('base64'), KeyId: body.KeyId } };
  }, refused('AccessDeniedException'));
};
