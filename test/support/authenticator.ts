// An authenticator in software: makes a passkey and answers challenges as a browser would send it, and lies where a test asks it to.
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';

type Options = { challenge: string; rp?: { id: string }; rpId?: string };

export type Lies = {
  challenge?: string;
  origin?: string;
  rp_id?: string;
  type?: string;
  counter?: number;
  /** Of the attestation: a statement with certificates. */
  certificates?: Buffer[];
};

export type Authenticator = {
  id: string;
  /** The answer to options of the page, as its script puts it into the form. */
  create(options: string, lies?: Lies): string;
  use(options: string, lies?: Lies): string;
};

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest();

/** CBOR (RFC 8949): a head of a major type and a size. */
const head = (major: number, size: number): Buffer =>
  size < 24
    ? Buffer.of((major << 5) | size)
    : size < 256
      ? Buffer.of((major << 5) | 24, size)
      : Buffer.of((major << 5) | 25, size >> 8, size & 255);

type Cbor = number | string | Buffer | Cbor[] | Map<number | string, Cbor>;

const cbor = (value: Cbor): Buffer => {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)]);
  return Buffer.concat([head(5, value.size), ...[...value].flat().map((each) => cbor(each))]);
};

const USER_PRESENT = 1;
const HAS_CREDENTIAL = 64;

/** @param origin of the page that the browser shows. @param counts whether it counts its uses. */
export const newAuthenticator = (origin: string, { counts = true } = {}): Authenticator => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const id = randomBytes(32);
  let counter = 0;
  const jwk = publicKey.export({ format: 'jwk' });
  const cose = new Map<number, Cbor>([
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, Buffer.from(jwk.x ?? '', 'base64url')],
    [-3, Buffer.from(jwk.y ?? '', 'base64url')],
  ]);

  const answer = (
    options: Options,
    lies: Lies,
    type: string,
    respond: (parts: { clientData: Buffer; data: Buffer }) => object,
  ): string => {
    const clientData = Buffer.from(
      JSON.stringify({
        type: lies.type ?? type,
        challenge: lies.challenge ?? options.challenge,
        origin: lies.origin ?? origin,
        crossOrigin: false,
      }),
    );
    counter += Number(counts);
    const count = Buffer.alloc(4);
    count.writeUInt32BE(lies.counter ?? counter);
    const isNew = type === 'webauthn.create';
    const size = Buffer.of(0, id.length);
    const data = Buffer.concat([
      sha256(lies.rp_id ?? options.rp?.id ?? options.rpId ?? ''),
      Buffer.of(isNew ? USER_PRESENT | HAS_CREDENTIAL : USER_PRESENT),
      count,
      ...(isNew ? [Buffer.alloc(16), size, id, cbor(cose)] : []),
    ]);
    const response = { clientDataJSON: clientData.toString('base64url'), ...respond({ clientData, data }) };
    const name = id.toString('base64url');
    return JSON.stringify({ id: name, rawId: name, type: 'public-key', response });
  };

  return {
    id: id.toString('base64url'),
    create: (options, lies = {}) =>
      answer(JSON.parse(options), lies, 'webauthn.create', ({ clientData, data }) => {
        const statement = new Map<string, Cbor>();
        if (lies.certificates) {
          statement.set('alg', -7);
          statement.set('sig', sign('sha256', Buffer.concat([data, sha256(clientData)]), privateKey));
          statement.set('x5c', lies.certificates);
        }
        const attestation = new Map<string, Cbor>([
          ['fmt', lies.certificates ? 'packed' : 'none'],
          ['attStmt', statement],
          ['authData', data],
        ]);
        return { attestationObject: cbor(attestation).toString('base64url'), transports: ['internal'] };
      }),
    use: (options, lies = {}) =>
      answer(JSON.parse(options), lies, 'webauthn.get', ({ clientData, data }) => ({
        authenticatorData: data.toString('base64url'),
        signature: sign('sha256', Buffer.concat([data, sha256(clientData)]), privateKey).toString('base64url'),
      })),
  };
};
