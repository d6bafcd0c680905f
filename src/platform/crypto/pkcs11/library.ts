// Calls a PKCS #11 library (version 2.40): the functions that wrapping needs, on 64-bit Linux. Its calls block.

/** Codes of errors (CKR_), with the names that the manuals of HSMs use. */
const ERROR_NAMES: Record<number, string> = {
  0x05: 'CKR_GENERAL_ERROR',
  0x06: 'CKR_FUNCTION_FAILED',
  0x07: 'CKR_ARGUMENTS_BAD',
  0x12: 'CKR_ATTRIBUTE_TYPE_INVALID',
  0x20: 'CKR_DATA_INVALID',
  0x21: 'CKR_DATA_LEN_RANGE',
  0x30: 'CKR_DEVICE_ERROR',
  0x31: 'CKR_DEVICE_MEMORY',
  0x32: 'CKR_DEVICE_REMOVED',
  0x40: 'CKR_ENCRYPTED_DATA_INVALID',
  0x41: 'CKR_ENCRYPTED_DATA_LEN_RANGE',
  0x42: 'CKR_AEAD_DECRYPT_FAILED',
  0x54: 'CKR_FUNCTION_NOT_SUPPORTED',
  0x60: 'CKR_KEY_HANDLE_INVALID',
  0x62: 'CKR_KEY_SIZE_RANGE',
  0x63: 'CKR_KEY_TYPE_INCONSISTENT',
  0x68: 'CKR_KEY_FUNCTION_NOT_PERMITTED',
  0x70: 'CKR_MECHANISM_INVALID',
  0x71: 'CKR_MECHANISM_PARAM_INVALID',
  0x82: 'CKR_OBJECT_HANDLE_INVALID',
  0xa0: 'CKR_PIN_INCORRECT',
  0xa1: 'CKR_PIN_INVALID',
  0xa2: 'CKR_PIN_LEN_RANGE',
  0xa3: 'CKR_PIN_EXPIRED',
  0xa4: 'CKR_PIN_LOCKED',
  0xb1: 'CKR_SESSION_COUNT',
  0xb3: 'CKR_SESSION_HANDLE_INVALID',
  0xe0: 'CKR_TOKEN_NOT_PRESENT',
  0xe1: 'CKR_TOKEN_NOT_RECOGNIZED',
  0x101: 'CKR_USER_NOT_LOGGED_IN',
  0x102: 'CKR_USER_PIN_NOT_INITIALIZED',
};
const USER_ALREADY_LOGGED_IN = 0x100;
const ATTRIBUTE_TYPE_INVALID = 0x12;

export class Pkcs11Error extends Error {
  override readonly name = 'Pkcs11Error';
  readonly called: string;
  readonly code: number;
  constructor(called: string, code: number) {
    super(`${ERROR_NAMES[code] ?? `CKR 0x${code.toString(16)}`} of ${called}`);
    this.called = called;
    this.code = code;
  }
}

/** Functions, each with its position in CK_FUNCTION_LIST and the number of its arguments. */
const FUNCTIONS = {
  C_Initialize: [0, 1],
  C_Finalize: [1, 1],
  C_GetSlotList: [4, 3],
  C_GetTokenInfo: [6, 2],
  C_OpenSession: [12, 5],
  C_Login: [18, 4],
  C_GetAttributeValue: [24, 4],
  C_FindObjectsInit: [26, 3],
  C_FindObjects: [27, 4],
  C_FindObjectsFinal: [28, 1],
  C_EncryptInit: [29, 3],
  C_Encrypt: [30, 5],
  C_DecryptInit: [33, 3],
  C_Decrypt: [34, 5],
} as const;

type FunctionName = keyof typeof FUNCTIONS;

/** CK_ULONG and pointers. All structures below consist of such words. */
const WORD_BYTES = 8;
/** CK_FUNCTION_LIST begins with a version, filled up to a word. */
const FUNCTION_LIST_HEAD_WORDS = 1;
/** The last function that is used is C_Decrypt. */
const FUNCTION_LIST_WORDS = FUNCTION_LIST_HEAD_WORDS + 35;

/** CK_TOKEN_INFO: the label has 32 bytes, filled up with blanks. */
const TOKEN_INFO_BYTES = 208;
const TOKEN_LABEL_BYTES = 32;
const TOKEN_FLAGS_AT = 96;

const CKF_SERIAL_SESSION = 4;
const CKU_USER = 1;
const CKM_AES_GCM = 0x1087;
export const GCM_IV_BYTES = 12;
export const GCM_TAG_BYTES = 16;
/** Some libraries want more space than they fill. */
const SPARE_BYTES = 64;

const ATTRIBUTES = {
  class: 0x0,
  token: 0x1,
  label: 0x3,
  keyType: 0x100,
  sensitive: 0x103,
  encrypt: 0x104,
  decrypt: 0x105,
  valueLength: 0x161,
  extractable: 0x162,
} as const;
const CKO_SECRET_KEY = 4;
const CKK_AES = 0x1f;

export type TokenInfo = { slot: bigint; label: string; flags: bigint };

/** koffi unloads a file that no variable names. */
const loadedFiles: unknown[] = [];

/** Loads a library into this process. @throws an Error with the words of the dynamic linker. */
export const loadLibrary = async (path: string) => {
  const { default: koffi } = await import('koffi');
  // A library finds its own OpenSSL before that of Node.
  const file = koffi.load(path, { deep: true });
  loadedFiles.push(file);

  /** Memory for one call: kept until the call is over, and then overwritten, since it has keys or the PIN. */
  const withMemory = <T>(work: (memory: ReturnType<typeof createMemory>) => T): T => {
    const memory = createMemory();
    try {
      return work(memory);
    } finally {
      memory.wipe();
    }
  };
  const createMemory = () => {
    const used: Buffer[] = [];
    const take = (bytes: Buffer) => {
      used.push(bytes);
      return { bytes, at: bytes.length === 0 ? 0n : BigInt(koffi.address(bytes)) };
    };
    return {
      space: (size: number) => take(Buffer.alloc(size)),
      copy(bytes: Uint8Array) {
        const copied = Buffer.alloc(bytes.length);
        copied.set(bytes);
        return take(copied);
      },
      words(...values: (number | bigint)[]) {
        const bytes = Buffer.alloc(values.length * WORD_BYTES);
        values.forEach((value, index) => bytes.writeBigUInt64LE(BigInt(value), index * WORD_BYTES));
        return take(bytes);
      },
      wipe: () => used.forEach((bytes) => bytes.fill(0)),
    };
  };

  const functions = withMemory((memory) => {
    const place = memory.words(0);
    const getFunctionList = file.func('C_GetFunctionList', 'uint64_t', ['uint64_t']);
    const code = Number(getFunctionList(place.at));
    if (code !== 0) throw new Pkcs11Error('C_GetFunctionList', code);
    const list = Buffer.from(koffi.view(place.bytes.readBigUInt64LE(), FUNCTION_LIST_WORDS * WORD_BYTES));
    const entries = Object.entries(FUNCTIONS).map(([name, [index, count]]) => {
      const at = list.readBigUInt64LE((FUNCTION_LIST_HEAD_WORDS + index) * WORD_BYTES);
      const type = koffi.proto(
        'uint64_t',
        Array.from({ length: count }, () => 'uint64_t'),
      );
      return [name, koffi.decode(at, type)] as const;
    });
    return Object.fromEntries(entries) as Record<FunctionName, (...args: (number | bigint)[]) => number | bigint>;
  });

  const call = (name: FunctionName, ...args: (number | bigint)[]): void => {
    const code = Number(functions[name](...args));
    if (code !== 0) throw new Pkcs11Error(name, code);
  };

  const findSlots = (): bigint[] =>
    withMemory((memory) => {
      const count = memory.words(0);
      call('C_GetSlotList', 1, 0, count.at);
      const slots = memory.space(Number(count.bytes.readBigUInt64LE()) * WORD_BYTES);
      call('C_GetSlotList', 1, slots.at, count.at);
      const found = Number(count.bytes.readBigUInt64LE());
      return Array.from({ length: found }, (_, index) => slots.bytes.readBigUInt64LE(index * WORD_BYTES));
    });

  const tokenIn = (slot: bigint): TokenInfo[] =>
    withMemory((memory) => {
      const { bytes, at } = memory.space(TOKEN_INFO_BYTES);
      try {
        call('C_GetTokenInfo', slot, at);
      } catch {
        // Removed since, or of another kind: it is not the one that is wanted.
        return [];
      }
      const label = bytes.toString('utf8', 0, TOKEN_LABEL_BYTES).trimEnd();
      return [{ slot, label, flags: bytes.readBigUInt64LE(TOKEN_FLAGS_AT) }];
    });

  const cryptGcm = (name: 'Encrypt' | 'Decrypt', session: bigint, key: bigint, { iv, aad, data }: GcmInput): Buffer =>
    withMemory((memory) => {
      const ivAt = memory.copy(iv).at;
      // CK_GCM_PARAMS with the number of bits of the IV, as the headers of 2.40 have it.
      const parameters = memory.words(
        ivAt,
        iv.length,
        iv.length * 8,
        memory.copy(aad).at,
        aad.length,
        GCM_TAG_BYTES * 8,
      );
      const mechanism = memory.words(CKM_AES_GCM, parameters.at, parameters.bytes.length);
      call(`C_${name}Init`, session, mechanism.at, key);
      const output = memory.space(data.length + GCM_TAG_BYTES + SPARE_BYTES);
      const length = memory.words(output.bytes.length);
      call(`C_${name}`, session, memory.copy(data).at, data.length, output.at, length.at);
      return Buffer.from(output.bytes.subarray(0, Number(length.bytes.readBigUInt64LE())));
    });

  return {
    initialize: () => call('C_Initialize', 0),
    finalize: () => call('C_Finalize', 0),
    findTokens: (): TokenInfo[] => findSlots().flatMap(tokenIn),
    openSession: (slot: bigint): bigint =>
      withMemory((memory) => {
        const session = memory.words(0);
        call('C_OpenSession', slot, CKF_SERIAL_SESSION, 0, 0, session.at);
        return session.bytes.readBigUInt64LE();
      }),
    /** @throws Pkcs11Error for a PIN that is wrong: tokens lock after some of these. */
    login: (session: bigint, pin: string): void =>
      withMemory((memory) => {
        const { bytes, at } = memory.copy(Buffer.from(pin));
        const code = Number(functions.C_Login(session, CKU_USER, at, bytes.length));
        if (code !== 0 && code !== USER_ALREADY_LOGGED_IN) throw new Pkcs11Error('C_Login', code);
      }),
    /** AES keys with a label, at most as many as `most`. */
    findAesKeys: (session: bigint, label: string, most: number): bigint[] =>
      withMemory((memory) => {
        const text = memory.copy(Buffer.from(label));
        const yes = memory.copy(Buffer.of(1));
        const [secret, aes] = [memory.words(CKO_SECRET_KEY), memory.words(CKK_AES)];
        const template = [
          [ATTRIBUTES.class, secret.at, WORD_BYTES],
          [ATTRIBUTES.keyType, aes.at, WORD_BYTES],
          [ATTRIBUTES.token, yes.at, 1],
          [ATTRIBUTES.label, text.at, text.bytes.length],
        ] as const;
        call('C_FindObjectsInit', session, memory.words(...template.flat()).at, template.length);
        try {
          const [keys, count] = [memory.space(most * WORD_BYTES), memory.words(0)];
          call('C_FindObjects', session, keys.at, most, count.at);
          const found = Number(count.bytes.readBigUInt64LE());
          return Array.from({ length: found }, (_, index) => keys.bytes.readBigUInt64LE(index * WORD_BYTES));
        } finally {
          call('C_FindObjectsFinal', session);
        }
      }),
    /** A flag or a number; undefined where the token does not know the attribute. */
    attributeOf: (session: bigint, key: bigint, name: keyof typeof ATTRIBUTES): number | undefined =>
      withMemory((memory) => {
        const value = memory.space(WORD_BYTES);
        try {
          call('C_GetAttributeValue', session, key, memory.words(ATTRIBUTES[name], value.at, WORD_BYTES).at, 1);
        } catch (error) {
          if (error instanceof Pkcs11Error && error.code === ATTRIBUTE_TYPE_INVALID) return undefined;
          throw error;
        }
        return Number(value.bytes.readBigUInt64LE());
      }),
    encrypt: (session: bigint, key: bigint, input: GcmInput): Buffer => cryptGcm('Encrypt', session, key, input),
    decrypt: (session: bigint, key: bigint, input: GcmInput): Buffer => cryptGcm('Decrypt', session, key, input),
  };
};

export type GcmInput = { iv: Uint8Array; aad: Uint8Array; data: Uint8Array };

export type Library = Awaited<ReturnType<typeof loadLibrary>>;
