// The MAC of a text of the audit log, under a key that the database does not have.
import { createHmac, createSecretKey } from 'node:crypto';
import { type DigestKey, logMacKeyBytes } from './digest.ts';
import { uuidOf } from './ids.ts';

declare const made: unique symbol;
/** 16 bytes as a UUID. */
export type LogMac = string & { readonly [made]: true };

const MAC_HEX = 32;

export const logMacUnder = (pepper: DigestKey): ((text: string) => LogMac) => {
  const key = createSecretKey(logMacKeyBytes(pepper));
  return (text) => uuidOf(createHmac('sha256', key).update(text).digest('hex').slice(0, MAC_HEX)) as LogMac;
};
