// Variables of the log lines and of the audit log.
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { wholeNumber } from './forms.ts';

/** PCI DSS 10.5.1 asks for twelve months, three of them at hand: thirteen whole ones leave a month to archive them. */
const LOG_RETENTION_MONTHS = 13;
/** Ten years: each month is a partition, which every list of the log plans for. */
const LOG_RETENTION_MONTHS_MAX = 120;

/** Of log lines and the audit log. */
export const logVariables = {
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
    .default('info')
    .describe('Least level logged.'),
  LOG_FORMAT: z.enum(['auto', 'json']).default('auto').describe('`json` never prints the start block of a terminal.'),
  LOG_RETENTION_MONTHS: wholeNumber(1, LOG_RETENTION_MONTHS_MAX, LOG_RETENTION_MONTHS).describe(
    'Whole months that the audit log stays in the database. `strongroom logs archive` moves older ones into files.',
  ),
  LOG_STREAM: z
    .string()
    .refine(isAbsolute, 'must be the absolute path of a file')
    .optional()
    .describe(
      'A file to which the rows of the audit log are streamed as lines of JSON, such as `/var/log/strongroom/audit.jsonl`. Not set: none.',
    ),
};
