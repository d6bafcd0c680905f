// Variables of the log lines and of the audit log.
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { parsePublicKey, parseSigningKey } from '../crypto/signed-note.ts';
import { isPrivateUrl, wholeNumber } from './forms.ts';

/** PCI DSS 10.5.1 asks for twelve months, three of them at hand: thirteen whole ones leave a month to archive them. */
const LOG_RETENTION_MONTHS = 13;
/** Ten years: each month is a partition, which every list of the log plans for. */
const LOG_RETENTION_MONTHS_MAX = 120;

/** Users ask within this time why a run failed. */
const RUN_RETENTION_DAYS = 30;
const RUN_RETENTION_DAYS_MAX = 400;
/** A year can be compared with the one before for a month. */
const USAGE_RETENTION_DAYS = 400;
const USAGE_RETENTION_DAYS_MAX = 1_200;

const signingKey = z.string().transform((text, problems) => {
  const key = parseSigningKey(text);
  if (key) return key;
  problems.addIssue(
    'must be a private Ed25519 key as PKCS#8, in PEM or base64. Make one: strongroom admin logs keygen FILE',
  );
  return z.NEVER;
});

const publicKeys = z.string().transform((text, problems) => {
  const keys = text.split(',').map(parsePublicKey);
  if (keys.every((key) => key !== undefined)) return keys;
  problems.addIssue('must be public keys as strongroom admin logs key prints them, comma-separated');
  return z.NEVER;
});

const checkpointUrl = z
  .string()
  .refine(isPrivateUrl, 'must be an https:// address, or http:// of localhost, 127.0.0.1 or [::1] only')
  .refine((text) => {
    const url = URL.parse(text);
    return !url || (url.username === '' && url.password === '');
  }, 'must have no user name and no password: requests to such an address are refused');

/** Variables of log lines and the audit log. */
export const logVariables = {
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Least level logged.'),
  LOG_FORMAT: z.enum(['auto', 'json']).default('auto').describe('`json` never prints the start block of a terminal.'),
  LOG_RETENTION_MONTHS: wholeNumber(1, LOG_RETENTION_MONTHS_MAX, LOG_RETENTION_MONTHS).describe(
    'Whole months that the audit log stays in the database. `strongroom admin logs archive` moves older ones into files.',
  ),
  RUN_RETENTION_DAYS: wholeNumber(1, RUN_RETENTION_DAYS_MAX, RUN_RETENTION_DAYS).describe(
    'Days that `GET /runs` tells what happened to a run of code or a proxied request. The audit log keeps its own entry of it.',
  ),
  USAGE_RETENTION_DAYS: wholeNumber(1, USAGE_RETENTION_DAYS_MAX, USAGE_RETENTION_DAYS).describe(
    'Days that `GET /tenants/self/reports/usage` counts what requests did by hour and by day.',
  ),
  LOG_STREAM: z
    .string()
    .refine(isAbsolute, 'must be the absolute path of a file')
    .optional()
    .describe(
      'A file to which the rows of the audit log are streamed as lines of JSON, such as `/var/log/strongroom/audit.jsonl`. Not set: none.',
    ),
  LOG_SIGNING_KEY: signingKey
    .optional()
    .describe(
      'Private Ed25519 key that signs checkpoints of the audit log (`strongroom admin logs keygen`). Not set: a key that follows from the root key.',
    ),
  LOG_SIGNING_KEYS_PREVIOUS: publicKeys
    .optional()
    .describe('Public keys of earlier signing keys, comma-separated: what they signed stays valid.'),
  LOG_CHECKPOINT_FILE: z
    .string()
    .refine(isAbsolute, 'must be the absolute path of a file')
    .optional()
    .describe('A file to which checkpoints of the audit log are appended. Not set: none.'),
  LOG_CHECKPOINT_URL: checkpointUrl
    .optional()
    .describe('An address to which checkpoints of the audit log are sent by POST. Not set: none.'),
};
