// Finds how much work opening an encrypted private key takes (PKCS #8 with PBES2, RFC 8018): a hostile key may ask for hours.
// Reads just enough DER (ITU-T X.690) for that.

const PBES2 = '2a864886f70d01050d';
const PBKDF2 = '2a864886f70d01050c';
const SEQUENCE = 0x30;
const INTEGER = 0x02;
const OCTETS = 0x04;
const OBJECT_ID = 0x06;

type Element = { tag: number; content: Buffer };

const elements = (bytes: Buffer): Element[] => {
  const found: Element[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const tag = bytes[at] as number;
    let length = bytes[at + 1] as number;
    at += 2;
    if (length > 0x80) {
      const size = length - 0x80;
      if (size > 4 || at + size > bytes.length) return [];
      length = bytes.readUIntBE(at, size);
      at += size;
    }
    if (length === 0x80 || at + length > bytes.length) return [];
    found.push({ tag, content: bytes.subarray(at, at + length) });
    at += length;
  }
  return found;
};

/** What is in a sequence whose first element is this object id, after it; none for anything else. */
const argumentsOf = (element: Element | undefined, objectId: string): Element[] => {
  if (element?.tag !== SEQUENCE) return [];
  const [name, ...rest] = elements(element.content);
  return name?.tag === OBJECT_ID && name.content.toString('hex') === objectId ? rest : [];
};

/** Rounds of PBKDF2 before the key of a PKCS #8 structure is open; undefined for a structure that derives it in another way. */
export const derivationRounds = (der: Buffer): number | undefined => {
  const [whole] = elements(der);
  if (whole?.tag !== SEQUENCE) return undefined;
  const [scheme] = argumentsOf(elements(whole.content)[0], PBES2);
  if (scheme?.tag !== SEQUENCE) return undefined;
  const [parameters] = argumentsOf(elements(scheme.content)[0], PBKDF2);
  if (parameters?.tag !== SEQUENCE) return undefined;
  const [salt, rounds] = elements(parameters.content);
  if (salt?.tag !== OCTETS || rounds?.tag !== INTEGER || rounds.content.length > 6) return undefined;
  return rounds.content.length === 0 ? undefined : rounds.content.readIntBE(0, rounds.content.length);
};

/** The bytes between the lines of PEM; what is no PEM is taken as it is. */
export const derOf = (key: string | Buffer): Buffer => {
  const [, armored] =
    /-----BEGIN ENCRYPTED PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END/.exec(key.toString('latin1')) ?? [];
  if (armored !== undefined) return Buffer.from(armored, 'base64');
  return typeof key === 'string' ? Buffer.from(key, 'latin1') : key;
};
