// Carries out crypto calls of the tenant's code with node:crypto: a function of a closed list, then methods of what it returned.
// Arguments are validated as untrusted input, and what takes long or much memory is bounded. Knows no key of the service.
import * as crypto from 'node:crypto';
import { KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { derivationRounds, derOf } from './key-derivation.ts';

/** Bytes of one value: more than an input of a run may be. */
const BYTES_MAX = 16 * 1024 * 1024;
/** One run gets its random bytes in pieces of this size. */
const RANDOM_BYTES_MAX = 1024 * 1024;
/** Iterations of PBKDF2, for all blocks of the derived key together. */
const ITERATIONS_MAX = 1_000_000;
/** Iterations of an encrypted key, which this process opens while all its runs wait. */
const KEY_ITERATIONS_MAX = 250_000;
/** Derived keys, and the output of extendable hashes. */
const DERIVED_BYTES_MAX = 64 * 1024;
/** Memory of one scrypt: 128 * cost * block size; Node's own default is half of it. */
const SCRYPT_MEMORY_MAX = 64 * 1024 * 1024;
/** How often scrypt goes through its memory. */
const SCRYPT_PARALLEL_MAX = 16;
/** Making an RSA key of this size takes about a second. */
const MODULUS_BITS_MAX = 4096;
const MODULUS_BITS_MIN = 512;
/** Bits of a key that is used: a signature with twice as many bits takes a second. */
const USED_BITS_MAX = 8192;
const KEY_LENGTH_MAX = 64 * 1024;
const ERROR_LENGTH_MAX = 300;
/** Depth of values within values: a list of calls has keys in options in arguments. */
const DEPTH_MAX = 8;
/** A cipher takes five; what one call may do at most is done while all runs of this process wait. */
const STEPS_MAX = 10;

class InputFault extends Error {
  readonly code: string;
  override readonly name: string;

  constructor(message: string, code = 'ERR_INVALID_ARG_VALUE', name = 'TypeError') {
    super(message);
    this.code = code;
    this.name = name;
  }
}

const outOfRange = (message: string): InputFault => new InputFault(message, 'ERR_OUT_OF_RANGE', 'RangeError');

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !(value instanceof KeyObject) && !ArrayBuffer.isView(value);

const bytesOf = (base64: unknown): Buffer => {
  if (typeof base64 !== 'string') throw new InputFault('Invalid bytes');
  if (base64.length > Math.ceil(BYTES_MAX / 3) * 4) throw outOfRange(`A value is longer than ${BYTES_MAX} bytes`);
  return Buffer.from(base64, 'base64');
};

/** Opening an encrypted key takes work: no operation needs more keys than these in one call. */
const KEYS_MAX = 4;
const keyKinds: ReadonlySet<unknown> = new Set(['secret', 'public', 'private']);
/** Bytes in base64, with room for names. */
const CALL_LENGTH_MAX = 3 * BYTES_MAX;

/** A value as crypto-bridge.cjs writes it: what JSON has no form for is an object with one property that names its kind. */
const decode = (wire: unknown, budget: { keys: number }, depth = 0): unknown => {
  if (typeof wire === 'string' && wire.length > BYTES_MAX) throw outOfRange('A text is too long');
  if (typeof wire !== 'object' || wire === null) return wire;
  if (depth > DEPTH_MAX) throw new InputFault('Invalid value');
  if (Array.isArray(wire)) return wire.map((each) => decode(each, budget, depth + 1));
  const [[kind, value] = []] = Object.entries(wire);
  if (keyKinds.has(kind) && (budget.keys -= 1) < 0) throw outOfRange(`A call has more than ${KEYS_MAX} keys`);
  switch (kind) {
    case 'bytes':
      return bytesOf(value);
    case 'bigint':
      return BigInt(String(value).slice(0, 1000));
    case 'secret':
      return crypto.createSecretKey(bytesOf(value));
    case 'public':
      return openKey(value, 'public').key;
    case 'private':
      return openKey(value, 'private').key;
    case 'object':
      return Object.fromEntries(
        Object.entries(value as object).map(([name, each]) => [name, decode(each, budget, depth + 1)]),
      );
    default:
      return undefined;
  }
};

const encodeKey = (key: KeyObject): Fields => ({
  key: {
    type: key.type,
    asymmetricKeyType: key.asymmetricKeyType,
    asymmetricKeyDetails: encode(key.asymmetricKeyDetails),
    pem: key.export({ type: key.type === 'public' ? 'spki' : 'pkcs8', format: 'pem' }),
  },
});

/** Objects with methods, such as a hash, stay here: their methods are the next steps of the same call. */
const encode = (value: unknown): unknown => {
  if (typeof value === 'bigint') return { bigint: String(value) };
  if (value instanceof KeyObject) return encodeKey(value);
  if (value instanceof ArrayBuffer) return { bytes: Buffer.from(value).toString('base64') };
  if (Buffer.isBuffer(value)) return { bytes: value.toString('base64') };
  if (Array.isArray(value)) return value.map(encode);
  if (typeof value !== 'object' || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return null;
  return { object: Object.fromEntries(Object.entries(value).map(([name, each]) => [name, encode(each)])) };
};

const ENCRYPTED = '-----BEGIN ENCRYPTED PRIVATE KEY-----';
const PLAIN = '-----BEGIN PRIVATE KEY-----';

/**
 * An encrypted key says itself how much work it is: one that says too much, or nothing, is not opened. PKCS #1 and SEC 1
 * take none. What is read here must be what is opened: so DER is not searched for PEM, and PEM has one block.
 */
const checkDerivation = (key: string | Buffer, format: unknown, type: unknown): void => {
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
const takesPassphrase = (key: string | Buffer, format: unknown): boolean =>
  format === 'der' || !key.toString('latin1').includes(PLAIN);

const checkSize = (key: KeyObject): KeyObject => {
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits > USED_BITS_MAX) throw new InputFault(`The modulus is longer than ${USED_BITS_MAX} bits`);
  return key;
};

type KeyKind = 'public' | 'private';

/** A key in any of Node's forms, as an object beside the options that came with it. */
const openKey = (given: unknown, kind: KeyKind): Fields & { key: KeyObject } => {
  const create = (kind === 'public' ? crypto.createPublicKey : crypto.createPrivateKey) as (key: object) => KeyObject;
  const { key, format, type, passphrase, encoding, ...options } = isFields(given) ? given : ({ key: given } as Fields);
  if (key instanceof KeyObject)
    return { ...options, key: kind === 'public' && key.type === 'private' ? crypto.createPublicKey(key) : key };
  if (format === 'jwk') {
    if ((JSON.stringify(key) ?? '').length > KEY_LENGTH_MAX) throw new InputFault('The key is too long');
    return { ...options, key: checkSize(create({ key, format })) };
  }
  const text = typeof key === 'string' && typeof encoding === 'string' ? Buffer.from(key, encoding as 'hex') : key;
  if (typeof text !== 'string' && !Buffer.isBuffer(text)) return { ...options, key: create({ key, format, type }) };
  if (text.length > KEY_LENGTH_MAX) throw new InputFault('The key is too long');
  const used = takesPassphrase(text, format) ? passphrase : undefined;
  if (used !== undefined) checkDerivation(text, format, type);
  const opened = Object.entries({ key: text, format, type, passphrase: used }).filter(
    ([, value]) => value !== undefined,
  );
  return { ...options, key: checkSize(create(Object.fromEntries(opened))) };
};

const numberOf = (value: unknown, name: string, min: number, max: number, fallback?: number): number => {
  if (value === undefined && fallback !== undefined) return fallback;
  if (typeof value !== 'number' || !Number.isSafeInteger(value))
    throw new InputFault(`The "${name}" argument must be an integer`, 'ERR_INVALID_ARG_TYPE');
  if (value >= min && value <= max) return value;
  throw outOfRange(`The value of "${name}" is out of range. It must be >= ${min} && <= ${max}. Received ${value}`);
};

const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {});

const hasHash = (algorithm: unknown): algorithm is string => {
  try {
    crypto.createHash(algorithm as string);
    return true;
  } catch {
    return false;
  }
};

type Arguments = readonly unknown[];

/** Bounds one of several sizes that Node does not bound itself. */
const bounded =
  (index: number, name: string, max: number) =>
  (args: Arguments): void =>
    void numberOf(args[index], name, 0, max);

const checkOutputLength = ([, options]: Arguments): void =>
  void numberOf(fieldsOf(options)['outputLength'], 'options.outputLength', 0, DERIVED_BYTES_MAX, 0);

type Entry = {
  run(...args: unknown[]): unknown;
  /** Methods of what `run` returns that may be called. */
  methods?: string[];
  /** Which argument is a key, and which half of a pair it must be or contain. */
  key?: [index: number, kind: KeyKind];
  check?(args: Arguments): void;
};

/** Node's function of this name; what it gets is checked by Node itself. */
const plain = (name: keyof typeof crypto, more: Omit<Entry, 'run'> = {}): [string, Entry] => [
  name,
  { run: crypto[name] as Entry['run'], ...more },
];

const CIPHER_METHODS = ['setAutoPadding', 'setAuthTag', 'setAAD', 'update', 'final', 'getAuthTag'];
const ECDH_METHODS = ['generateKeys', 'setPrivateKey', 'getPrivateKey', 'getPublicKey', 'computeSecret'];

const functions = new Map<string, Entry>([
  plain('createHash', { methods: ['update', 'digest'], check: checkOutputLength }),
  plain('createHmac', { methods: ['update', 'digest'] }),
  plain('createCipheriv', { methods: CIPHER_METHODS }),
  plain('createDecipheriv', { methods: CIPHER_METHODS }),
  plain('createECDH', { methods: ECDH_METHODS }),
  plain('sign', { key: [2, 'private'] }),
  plain('verify', { key: [2, 'public'] }),
  plain('publicEncrypt', { key: [0, 'public'] }),
  plain('publicDecrypt', { key: [0, 'public'] }),
  plain('privateEncrypt', { key: [0, 'private'] }),
  plain('privateDecrypt', { key: [0, 'private'] }),
  plain('hkdfSync', { check: bounded(4, 'length', DERIVED_BYTES_MAX) }),
  plain('timingSafeEqual'),
  plain('randomBytes', { check: bounded(0, 'size', RANDOM_BYTES_MAX) }),
  plain('randomInt'),
  plain('randomUUID'),
  plain('getHashes'),
  plain('getCiphers'),
  plain('getCurves'),
  ['createPublicKey', { run: (key) => openKey(key, 'public').key }],
  ['createPrivateKey', { run: (key) => openKey(key, 'private').key }],
  ['exportKey', { run: (key, options) => (key as KeyObject).export(options as { format: 'jwk' }) }],
  [
    'diffieHellman',
    {
      run: (given) => {
        const { privateKey, publicKey } = fieldsOf(given);
        return crypto.diffieHellman({
          privateKey: openKey(privateKey, 'private').key,
          publicKey: openKey(publicKey, 'public').key,
        });
      },
    },
  ],
  [
    'convertECDHKey',
    { run: (...args) => crypto.ECDH.convertKey(...(args as Parameters<typeof crypto.ECDH.convertKey>)) },
  ],
]);

const pbkdf2 = promisify(crypto.pbkdf2) as (...args: Arguments) => Promise<Buffer>;
const scrypt = promisify(crypto.scrypt) as (...args: Arguments) => Promise<Buffer>;
const generateKeyPair = promisify(crypto.generateKeyPair) as unknown as (
  type: string,
  options: object,
) => Promise<{ privateKey: KeyObject; publicKey: KeyObject }>;

const runPbkdf2 = (...args: unknown[]): Promise<Buffer> => {
  const iterations = numberOf(args[2], 'iterations', 1, ITERATIONS_MAX);
  const length = numberOf(args[3], 'keylen', 0, DERIVED_BYTES_MAX);
  // Node refuses a hash that it does not know.
  const blockBytes = hasHash(args[4]) ? crypto.createHash(args[4]).digest().length : 1;
  if (iterations * Math.ceil(length / blockBytes) > ITERATIONS_MAX)
    throw outOfRange(`The derived key takes more than ${ITERATIONS_MAX} iterations for all its blocks`);
  return pbkdf2(...args);
};

const runScrypt = (password: unknown, salt: unknown, length: unknown, given: unknown): Promise<Buffer> => {
  const options = fieldsOf(given);
  const cost = numberOf(options['cost'] ?? options['N'], 'N', 2, 2 ** 20, 16_384);
  const blockSize = numberOf(options['blockSize'] ?? options['r'], 'r', 1, 64, 8);
  const parallelization = numberOf(options['parallelization'] ?? options['p'], 'p', 1, SCRYPT_PARALLEL_MAX, 1);
  const asked = numberOf(options['maxmem'], 'maxmem', 0, Number.MAX_SAFE_INTEGER, 32 * 1024 * 1024);
  const maxmem = Math.min(asked, SCRYPT_MEMORY_MAX);
  // OpenSSL counts so. It remembers what it refused and reports it to the next call, of any caller.
  if (128 * blockSize * (cost + 2 + parallelization) > maxmem)
    throw new InputFault(
      'Invalid scrypt params: memory limit exceeded',
      'ERR_CRYPTO_INVALID_SCRYPT_PARAMS',
      'RangeError',
    );
  const keylen = numberOf(length, 'keylen', 0, DERIVED_BYTES_MAX);
  return scrypt(password, salt, keylen, { cost, blockSize, parallelization, maxmem });
};

const KEY_TYPES = ['rsa', 'ec', 'ed25519', 'x25519'];
/** A public exponent of the caller's own choosing can make the search for primes endless. */
const EXPONENTS: unknown[] = [undefined, 3, 17, 65_537];

const runGenerateKeyPair = async (type: unknown, given: unknown): Promise<object> => {
  const { modulusLength, publicExponent, namedCurve } = fieldsOf(given);
  if (typeof type !== 'string' || !KEY_TYPES.includes(type)) throw new InputFault('Invalid type');
  if (!EXPONENTS.includes(publicExponent)) throw new InputFault('Invalid publicExponent');
  if (type === 'rsa') numberOf(modulusLength, 'modulusLength', MODULUS_BITS_MIN, MODULUS_BITS_MAX);
  const wanted = { modulusLength, publicExponent, namedCurve };
  const { privateKey, publicKey } = await generateKeyPair(
    type,
    Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined)),
  );
  return { privateKey, publicKey };
};

/** What may take a second, done by other threads. */
const slowFunctions = new Map<string, Entry>([
  ['pbkdf2', { run: runPbkdf2 }],
  ['scrypt', { run: runScrypt }],
  ['generateKeyPair', { run: runGenerateKeyPair }],
]);

const clip = (text: string): string => text.slice(0, ERROR_LENGTH_MAX);

/** OpenSSL remembers some failures and reports them to the next caller; a failure of this kind makes it forget all. */
const forgetFailures = (): void => void hasHash('none');

const failed = (fault: unknown): string => {
  forgetFailures();
  const { name, message, code }: Error & { code?: unknown } = fault instanceof Error ? fault : new Error('Failed');
  const error = { name: clip(name), message: clip(message), ...(typeof code === 'string' && { code: clip(code) }) };
  return JSON.stringify({ error });
};

const find = (entries: Map<string, Entry>, name: string): Entry => {
  const entry = entries.get(name);
  if (entry === undefined) throw new InputFault('Unknown function');
  return entry;
};

/** The arguments of the function, and after them the steps: each the name of a method and its arguments. */
const parseCall = (json: string, { key, check }: Entry): { args: unknown[]; steps: unknown[][] } => {
  if (json.length > CALL_LENGTH_MAX) throw outOfRange('A call is too long');
  const [args, ...steps] = decode(JSON.parse(json), { keys: KEYS_MAX }) as unknown[][];
  if (!Array.isArray(args) || !steps.every(Array.isArray) || steps.length > STEPS_MAX)
    throw new InputFault('Invalid call');
  if (key !== undefined) {
    const [index, kind] = key;
    if (args[index] != null) args[index] = openKey(args[index], kind);
  }
  check?.(args);
  return { args, steps };
};

const runSteps = (object: unknown, methods: string[] = [], steps: unknown[][]): unknown[] =>
  steps.map(([method, ...args]) => {
    if (typeof method !== 'string' || !methods.includes(method)) throw new InputFault('Unknown method');
    return (object as Record<string, Entry['run']>)[method]?.(...args);
  });

/**
 * @param json the arguments of the function and the steps, see `parseCall`.
 * @returns JSON text: `{"ok": [...]}` with the result of the function and of each step, or `{"error": {name, message, code?}}`.
 * Never throws, and no stack goes out.
 */
export const answerCrypto = (name: string, json: string): string => {
  try {
    const entry = find(functions, name);
    const { args, steps } = parseCall(json, entry);
    const first = entry.run(...args);
    return JSON.stringify({ ok: encode([first, ...runSteps(first, entry.methods, steps)]) });
  } catch (fault) {
    return failed(fault);
  }
};

/** Does what `answerCrypto` does, for what takes long: other threads do it. Never rejects. */
export const answerSlowCrypto = async (name: string, json: string): Promise<string> => {
  try {
    const entry = find(slowFunctions, name);
    return JSON.stringify({ ok: encode([await entry.run(...parseCall(json, entry).args)]) });
  } catch (fault) {
    return failed(fault);
  }
};
