// Answers what the prelude asks of cryptography, by the executor's own node:crypto on keys that the tenant's code brought.
// Operations and their inputs are a closed list, each input checked and bounded. Knows no key of the service.
import {
  createCipheriv,
  createDecipheriv,
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  ECDH,
  generateKeyPair,
  getCiphers,
  getCurves,
  getHashes,
  hkdfSync,
  pbkdf2,
  privateDecrypt,
  privateEncrypt,
  publicDecrypt,
  publicEncrypt,
  randomBytes,
  randomInt,
  randomUUID,
  scrypt,
  sign,
  verify,
  type CipherGCM,
  type DecipherGCM,
  type KeyObject,
} from 'node:crypto';
import { promisify } from 'node:util';
import { derivationRounds, derOf } from './key-derivation.ts';

/** Of one value: more than an input of a run may be. */
const BYTES_MAX = 16 * 1024 * 1024;
/** design/sandbox.md section 4. */
const RANDOM_BYTES_MAX = 1024 * 1024;
/** Of PBKDF2, for all blocks of the derived key together. */
const ITERATIONS_MAX = 1_000_000;
/** Of an encrypted key, whose opening this process waits for. */
const KEY_ITERATIONS_MAX = 250_000;
/** Derived keys, and the output of extendable hashes. */
const DERIVED_BYTES_MAX = 64 * 1024;
/** Memory of one scrypt: 128 * cost * block size; Node's own default is half of it. */
const SCRYPT_MEMORY_MAX = 64 * 1024 * 1024;
/** Times the memory it is gone through. */
const SCRYPT_PARALLEL_MAX = 16;
/** Making an RSA key of this size takes about a second. */
const MODULUS_BITS_MAX = 4096;
const MODULUS_BITS_MIN = 512;
/** Of a key that is used: a signature with twice as many bits takes a second. */
const USED_BITS_MAX = 8192;
const NAME_LENGTH_MAX = 100;
const KEY_LENGTH_MAX = 64 * 1024;
const ERROR_LENGTH_MAX = 300;

class InputFault extends Error {
  readonly code: string;
  override readonly name: string;

  constructor(message: string, code = 'ERR_INVALID_ARG_VALUE', name = 'TypeError') {
    super(message);
    this.code = code;
    this.name = name;
  }
}

type Input = Record<string, unknown>;

/** The options of Node's own functions; Node checks what is in them. */
type Options = Record<string, unknown>;
type KeyKind = 'public' | 'private';

const own = (input: Input, name: string): unknown => (Object.hasOwn(input, name) ? input[name] : undefined);

const textOf = (input: Input, name: string, lengthMax = NAME_LENGTH_MAX): string => {
  const value = own(input, name);
  if (typeof value !== 'string' || value.length > lengthMax) throw new InputFault(`Invalid ${name}`);
  return value;
};

const optionalText = (input: Input, name: string, lengthMax?: number): string | undefined =>
  own(input, name) === undefined || own(input, name) === null ? undefined : textOf(input, name, lengthMax);

const bytesOf = (input: Input, name: string, bytesMax = BYTES_MAX): Buffer => {
  const value = own(input, name);
  if (typeof value !== 'string') throw new InputFault(`Invalid ${name}`);
  if (value.length > Math.ceil(bytesMax / 3) * 4) {
    throw new InputFault(`The ${name} is longer than ${bytesMax} bytes`, 'ERR_OUT_OF_RANGE', 'RangeError');
  }
  return Buffer.from(value, 'base64');
};

const optionalBytes = (input: Input, name: string): Buffer | undefined =>
  own(input, name) === undefined || own(input, name) === null ? undefined : bytesOf(input, name);

const integerOf = (input: Input, name: string, min: number, max: number): number => {
  const value = own(input, name);
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw new InputFault(`Invalid ${name}`);
  if (value < min || value > max) {
    const text = `The value of "${name}" is out of range. It must be >= ${min} && <= ${max}. Received ${value}`;
    throw new InputFault(text, 'ERR_OUT_OF_RANGE', 'RangeError');
  }
  return value;
};

const optionalInteger = (input: Input, name: string, min: number, max: number): number | undefined =>
  own(input, name) === undefined || own(input, name) === null ? undefined : integerOf(input, name, min, max);

const oneOf = <Name extends string>(input: Input, name: string, names: readonly Name[]): Name => {
  const value = own(input, name);
  const found = names.find((each) => each === value);
  if (found === undefined) throw new InputFault(`Invalid ${name}`);
  return found;
};

const base64 = (bytes: Uint8Array | ArrayBuffer): string =>
  (bytes instanceof ArrayBuffer
    ? Buffer.from(bytes)
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  ).toString('base64');

const objectOf = (value: unknown, name: string): Input => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new InputFault(`Invalid ${name}`);
  return value as Input;
};

const ENCRYPTED = '-----BEGIN ENCRYPTED PRIVATE KEY-----';
const PLAIN = '-----BEGIN PRIVATE KEY-----';

/**
 * An encrypted key says itself how much work it is: one that says too much, or nothing, is not opened. PKCS #1 and SEC 1
 * take none. What is read here must be what is opened: so DER is not searched for PEM, and PEM has one block.
 */
const checkDerivation = (key: string | Buffer, format: string | undefined, type: string | undefined): void => {
  const isDer = format === 'der';
  const text = key.toString('latin1');
  const isPkcs8 = isDer ? type === 'pkcs8' : text.includes(ENCRYPTED);
  if (!isPkcs8) return;
  const isOne = isDer || text.split('-----BEGIN ').length === 2;
  const rounds = isOne ? derivationRounds(isDer ? Buffer.from(key) : derOf(key)) : undefined;
  if (rounds === undefined || rounds < 1 || rounds > KEY_ITERATIONS_MAX) {
    throw new InputFault('Unsupported key derivation of an encrypted key');
  }
};

/** Under the label of a plain key OpenSSL opens an encrypted one too, and without a passphrase only a plain one. */
const takesPassphrase = (key: string | Buffer, format: string | undefined): boolean =>
  format === 'der' || !key.toString('latin1').includes(PLAIN);

/** Any of Node's forms of a key, as the prelude writes them. */
const readKey = (input: Input, name: string, kind: KeyKind): KeyObject => {
  const wire = objectOf(own(input, name), name);
  const create = (kind === 'public' ? createPublicKey : createPrivateKey) as (key: object) => KeyObject;
  const jwk = optionalText(wire, 'jwk', KEY_LENGTH_MAX);
  if (jwk !== undefined) return checkSize(create({ key: objectOf(JSON.parse(jwk), name), format: 'jwk' }));
  const key = optionalText(wire, 'text', KEY_LENGTH_MAX) ?? bytesOf(wire, 'bytes', KEY_LENGTH_MAX);
  const format = optionalText(wire, 'format');
  const type = optionalText(wire, 'type');
  const given = optionalBytes(wire, 'passphrase');
  const passphrase = takesPassphrase(key, format) ? given : undefined;
  if (passphrase !== undefined) checkDerivation(key, format, type);
  return checkSize(
    create({
      key,
      ...(format === undefined ? {} : { format }),
      ...(type === undefined ? {} : { type }),
      ...(passphrase === undefined ? {} : { passphrase }),
    }),
  );
};

const checkSize = (key: KeyObject): KeyObject => {
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits > USED_BITS_MAX) throw new InputFault(`The modulus is longer than ${USED_BITS_MAX} bits`);
  return key;
};

const signingOptions = (input: Input): Options => {
  const padding = optionalInteger(input, 'padding', 0, 10);
  const saltLength = optionalInteger(input, 'salt_length', -2, 1024);
  const dsaEncoding = optionalText(input, 'dsa_encoding');
  return {
    ...(padding === undefined ? {} : { padding }),
    ...(saltLength === undefined ? {} : { saltLength }),
    ...(dsaEncoding === undefined ? {} : { dsaEncoding }),
  };
};

const encryptionOptions = (input: Input): Options => {
  const padding = optionalInteger(input, 'padding', 0, 10);
  const oaepHash = optionalText(input, 'oaep_hash');
  const oaepLabel = optionalBytes(input, 'oaep_label');
  return {
    ...(padding === undefined ? {} : { padding }),
    ...(oaepHash === undefined ? {} : { oaepHash }),
    ...(oaepLabel === undefined ? {} : { oaepLabel }),
  };
};

/** Node's own types know by an algorithm's name what else it takes; here it is any, and Node decides. */
type CreateCipher = (algorithm: string, key: Buffer, iv: Buffer | null, options: Options) => CipherGCM | DecipherGCM;

const makeCipher = (input: Input): CipherGCM | DecipherGCM => {
  const algorithm = textOf(input, 'algorithm');
  const isEncrypting = oneOf(input, 'direction', ['encrypt', 'decrypt']) === 'encrypt';
  const create = (isEncrypting ? createCipheriv : createDecipheriv) as CreateCipher;
  const iv = own(input, 'iv') === null ? null : bytesOf(input, 'iv');
  const authTagLength = optionalInteger(input, 'auth_tag_length', 0, 16);
  const options = authTagLength === undefined ? {} : { authTagLength };
  return create(algorithm, bytesOf(input, 'key'), iv, options);
};

const isAuthenticated = /-(gcm|ccm|ocb)$|poly1305$/i;
/** The whole of what went in so far, from the start: nothing is kept between calls. */
const runCipher = (input: Input): Input => {
  const cipher = makeCipher(input);
  const autoPadding = own(input, 'auto_padding');
  if (typeof autoPadding === 'boolean') cipher.setAutoPadding(autoPadding);
  const authTag = optionalBytes(input, 'auth_tag');
  if (authTag !== undefined) (cipher as DecipherGCM).setAuthTag(authTag);
  const aad = optionalBytes(input, 'aad');
  const plaintextLength = optionalInteger(input, 'plaintext_length', 0, BYTES_MAX);
  if (aad !== undefined) cipher.setAAD(aad, plaintextLength === undefined ? undefined : { plaintextLength });
  const data = bytesOf(input, 'data');
  const output = cipher.update(data);
  if (own(input, 'is_final') !== true) return { output: base64(output) };
  const whole = Buffer.concat([output, cipher.final()]);
  const hasTag = 'getAuthTag' in cipher && isAuthenticated.test(textOf(input, 'algorithm'));
  return { output: base64(whole), ...(hasTag ? { auth_tag: base64(cipher.getAuthTag()) } : {}) };
};

type Derive = (
  password: Buffer,
  salt: Buffer,
  length: number,
  options: { cost: number; blockSize: number; parallelization: number; maxmem: number },
) => Promise<Buffer>;
const deriveByScrypt = promisify(scrypt) as Derive;
const deriveByPbkdf2 = promisify(pbkdf2);

const runScrypt = async (input: Input): Promise<string> => {
  const cost = optionalInteger(input, 'cost', 2, 2 ** 20) ?? 16_384;
  const blockSize = optionalInteger(input, 'block_size', 1, 64) ?? 8;
  const parallelization = optionalInteger(input, 'parallelization', 1, SCRYPT_PARALLEL_MAX) ?? 1;
  const asked = optionalInteger(input, 'maxmem', 0, Number.MAX_SAFE_INTEGER) ?? 32 * 1024 * 1024;
  const length = integerOf(input, 'length', 0, DERIVED_BYTES_MAX);
  const maxmem = Math.min(asked, SCRYPT_MEMORY_MAX);
  // As OpenSSL counts. What it refuses itself it remembers, and tells the next who asks it for something else.
  if (128 * blockSize * (cost + 2 + parallelization) > maxmem)
    throw new InputFault(
      'Invalid scrypt params: memory limit exceeded',
      'ERR_CRYPTO_INVALID_SCRYPT_PARAMS',
      'RangeError',
    );
  const options = { cost, blockSize, parallelization, maxmem };
  return base64(await deriveByScrypt(bytesOf(input, 'password'), bytesOf(input, 'salt'), length, options));
};

const runPbkdf2 = async (input: Input): Promise<string> => {
  const digest = textOf(input, 'digest');
  const iterations = integerOf(input, 'iterations', 1, ITERATIONS_MAX);
  const length = integerOf(input, 'length', 0, DERIVED_BYTES_MAX);
  // A hash that there is not is Node's to refuse.
  const blockBytes = hasHash(digest) ? createHash(digest).digest().length : 1;
  if (iterations * Math.ceil(length / blockBytes) > ITERATIONS_MAX) {
    const text = `The derived key takes more than ${ITERATIONS_MAX} iterations for all its blocks`;
    throw new InputFault(text, 'ERR_OUT_OF_RANGE', 'RangeError');
  }
  const [password, salt] = [bytesOf(input, 'password'), bytesOf(input, 'salt')];
  return base64(await deriveByPbkdf2(password, salt, iterations, length, digest));
};

const describeKey = (input: Input): Input => {
  const kind = oneOf(input, 'kind', ['public', 'private']);
  const key = readKey(input, 'key', kind);
  const details = key.asymmetricKeyDetails;
  return {
    type: key.type,
    asymmetric_key_type: key.asymmetricKeyType,
    details:
      details === undefined
        ? undefined
        : Object.fromEntries(
            Object.entries(details).map(([name, value]) => [name, typeof value === 'bigint' ? String(value) : value]),
          ),
    text: key.export({ type: kind === 'public' ? 'spki' : 'pkcs8', format: 'pem' }),
  };
};

const exportKey = (input: Input): Input => {
  const key = readKey(input, 'key', oneOf(input, 'kind', ['public', 'private']));
  const format = oneOf(input, 'format', ['pem', 'der', 'jwk']);
  if (format === 'jwk') return { jwk: key.export({ format }) };
  const type = oneOf(input, 'type', ['pkcs1', 'spki', 'pkcs8', 'sec1']);
  const cipher = optionalText(input, 'cipher');
  const passphrase = optionalText(input, 'passphrase', KEY_LENGTH_MAX);
  const options = { format, type, ...(cipher === undefined ? {} : { cipher, passphrase }) };
  const exported = (key.export as (options: object) => string | Buffer).call(key, options);
  return typeof exported === 'string' ? { text: exported } : { bytes: base64(exported) };
};

const generatePair = async (input: Input): Promise<string> => {
  const type = oneOf(input, 'type', ['rsa', 'ec', 'ed25519', 'x25519']);
  const options =
    type === 'rsa'
      ? {
          modulusLength: integerOf(input, 'modulus_length', MODULUS_BITS_MIN, MODULUS_BITS_MAX),
          publicExponent: oneOfNumbers(input, 'public_exponent', [3, 17, 65_537]) ?? 65_537,
        }
      : type === 'ec'
        ? { namedCurve: textOf(input, 'named_curve') }
        : {};
  const { privateKey } = await generate(type, options);
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
};

const generate = promisify(generateKeyPair) as unknown as (
  type: string,
  options: object,
) => Promise<{ privateKey: KeyObject }>;

/** A public exponent of the caller's own choosing can make the search for primes endless. */
const oneOfNumbers = (input: Input, name: string, numbers: readonly number[]): number | undefined => {
  const value = own(input, name);
  if (value === undefined) return undefined;
  const found = numbers.find((each) => each === value);
  if (found === undefined) throw new InputFault(`Invalid ${name}`);
  return found;
};

const ecdhPair = (input: Input, prepare: (ecdh: ECDH) => unknown): Input => {
  const ecdh = createECDH(textOf(input, 'curve'));
  prepare(ecdh);
  return { private_key: base64(ecdh.getPrivateKey()), public_key: base64(ecdh.getPublicKey()) };
};

const ecdhSecret = (input: Input): string => {
  const ecdh = createECDH(textOf(input, 'curve'));
  ecdh.setPrivateKey(bytesOf(input, 'private_key'));
  return base64(ecdh.computeSecret(bytesOf(input, 'public_key')));
};

type Crypt = (key: { key: KeyObject }, data: Buffer) => Buffer;

const asymmetric =
  (kind: KeyKind, crypt: Crypt) =>
  (input: Input): string =>
    base64(crypt({ key: readKey(input, 'key', kind), ...encryptionOptions(input) }, bytesOf(input, 'data')));

const hashOptions = (input: Input): { outputLength?: number } => {
  const outputLength = optionalInteger(input, 'output_length', 0, DERIVED_BYTES_MAX);
  return outputLength === undefined ? {} : { outputLength };
};

const hasHash = (algorithm: string): boolean => {
  try {
    createHash(algorithm);
    return true;
  } catch {
    return false;
  }
};

type Operation = (input: Input) => unknown;

const operations: Record<string, Operation> = {
  __proto__: null as never,
  hash: (input) =>
    base64(createHash(textOf(input, 'algorithm'), hashOptions(input)).update(bytesOf(input, 'data')).digest()),
  hmac: (input) =>
    base64(createHmac(textOf(input, 'algorithm'), bytesOf(input, 'key')).update(bytesOf(input, 'data')).digest()),
  has_hash: (input) => hasHash(textOf(input, 'algorithm')),
  hashes: () => getHashes(),
  ciphers: () => getCiphers(),
  curves: () => getCurves(),
  random_bytes: (input) => base64(randomBytes(integerOf(input, 'size', 0, RANDOM_BYTES_MAX))),
  random_uuid: () => randomUUID(),
  random_int: (input) =>
    randomInt(
      integerOf(input, 'min', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
      integerOf(input, 'max', Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    ),
  hkdf: (input) =>
    base64(
      hkdfSync(
        textOf(input, 'digest'),
        createSecretKey(bytesOf(input, 'key')),
        bytesOf(input, 'salt'),
        bytesOf(input, 'info'),
        integerOf(input, 'length', 0, DERIVED_BYTES_MAX),
      ),
    ),
  cipher_check: (input) => {
    makeCipher(input);
  },
  cipher: runCipher,
  sign: (input) => {
    const key = { key: readKey(input, 'key', 'private'), ...signingOptions(input) };
    return base64(sign(optionalText(input, 'algorithm'), bytesOf(input, 'data'), key));
  },
  verify: (input) => {
    const key = { key: readKey(input, 'key', 'public'), ...signingOptions(input) };
    return verify(optionalText(input, 'algorithm'), bytesOf(input, 'data'), key, bytesOf(input, 'signature'));
  },
  public_encrypt: asymmetric('public', publicEncrypt),
  public_decrypt: asymmetric('public', publicDecrypt),
  private_encrypt: asymmetric('private', privateEncrypt),
  private_decrypt: asymmetric('private', privateDecrypt),
  describe_key: describeKey,
  export_key: exportKey,
  key_agreement: (input) =>
    base64(
      diffieHellman({
        privateKey: readKey(input, 'private_key', 'private'),
        publicKey: readKey(input, 'public_key', 'public'),
      }),
    ),
  ecdh_generate: (input) => ecdhPair(input, (ecdh) => ecdh.generateKeys()),
  ecdh_public: (input) => ecdhPair(input, (ecdh) => ecdh.setPrivateKey(bytesOf(input, 'private_key'))),
  ecdh_secret: ecdhSecret,
  ecdh_convert: (input) => {
    const format = oneOf(input, 'format', ['compressed', 'uncompressed', 'hybrid']);
    const point = ECDH.convertKey(
      bytesOf(input, 'public_key'),
      textOf(input, 'curve'),
      undefined,
      undefined,
      format,
    ) as Buffer;
    return base64(point);
  },
};

/** What may take a second, done by other threads. */
const slowOperations: Record<string, (input: Input) => Promise<unknown>> = {
  __proto__: null as never,
  pbkdf2: runPbkdf2,
  scrypt: runScrypt,
  generate_key_pair: generatePair,
};

const clip = (text: string): string => text.slice(0, ERROR_LENGTH_MAX);

const describeFault = (fault: unknown): Input => {
  const { name, message, code }: Error & { code?: unknown } = fault instanceof Error ? fault : new Error('Failed');
  return {
    name: clip(name),
    message: clip(message),
    ...(typeof code === 'string' ? { code: clip(code) } : {}),
  };
};

/** OpenSSL remembers some failures for whoever asks next; a failure of this kind makes it forget all. */
const forgetFailures = (): void => void hasHash('none');

const failed = (fault: unknown): string => {
  forgetFailures();
  return JSON.stringify({ error: describeFault(fault) });
};

/** Of an operation and its input. By own property, so that `__proto__` is unknown. */
const find = <Found>(of: Record<string, Found>, operation: string): Found => {
  const found = Object.hasOwn(of, operation) ? of[operation] : undefined;
  if (found === undefined) throw new InputFault('Unknown operation');
  return found;
};

/**
 * @param operation one of a closed list.
 * @returns JSON text: `{"ok": ...}` or `{"error": {name, message, code?}}`. Never throws, and no stack goes out.
 */
export const answerCrypto = (operation: string, json: string): string => {
  try {
    return JSON.stringify({ ok: find(operations, operation)(objectOf(JSON.parse(json), 'input')) ?? null });
  } catch (fault) {
    return failed(fault);
  }
};

/** As `answerCrypto`, for what takes long: other threads do it. Never rejects. */
export const answerSlowCrypto = async (operation: string, json: string): Promise<string> => {
  try {
    return JSON.stringify({ ok: await find(slowOperations, operation)(objectOf(JSON.parse(json), 'input')) });
  } catch (fault) {
    return failed(fault);
  }
};
