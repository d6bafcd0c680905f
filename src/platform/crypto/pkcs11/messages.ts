// What the server and the process with the PKCS #11 library tell each other.

/** The first message: which token and keys to open. */
export type Opening = {
  /** Path of the library. */
  module: string;
  /** Label of the token. */
  token: string;
  /** Labels of keys. */
  keys: string[];
  pin: string;
};

export type WrapRequest = {
  /** Not 0, which is the answer to the opening. */
  id: number;
  action: 'encrypt' | 'decrypt';
  /** Index of the key in the opening. */
  key: number;
  iv: Uint8Array;
  aad: Uint8Array;
  data: Uint8Array;
};

/**
 * Why there is no result. `setup`: the configuration or the token must be changed. `pin`: so must the PIN, and another attempt could
 * lock the token. `broken`: the ciphertext was changed. `refused`: the token does not do this with the key. `failed`: it may
 * succeed in a new session.
 */
export type Fault = { kind: 'setup' | 'pin' | 'broken' | 'refused' | 'failed'; text: string };

export type Reply =
  | { id: number; fault: Fault }
  | { id: 0; root_key_ids: string[] }
  | { id: number; result: Uint8Array };
