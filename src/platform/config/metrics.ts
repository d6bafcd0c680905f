// Variables of metrics.
import { z } from 'zod';
import { wholeNumberFrom } from './forms.ts';

/** A token that can be guessed protects nothing: 16 random characters have 95 bits. The characters are those of RFC 6750. */
const METRICS_TOKEN_FORM = /^[A-Za-z0-9._~+/-]{16,200}=*$/;

export const metricVariables = {
  METRICS_PORT: wholeNumberFrom(0, 65_535)
    .optional()
    .describe('Port of its own for `GET /metrics`; 0 takes a free one. Not set: none.'),
  METRICS_HOST: z.string().min(1).default('127.0.0.1').describe('Address that METRICS_PORT listens on.'),
  METRICS_TOKEN: z
    .string()
    .regex(METRICS_TOKEN_FORM, 'must be 16 to 200 letters, digits or `._~+/-`. Make one: openssl rand -hex 24')
    .optional()
    .describe(
      'Bearer token that `GET /metrics` asks for. Without METRICS_PORT it opens `/metrics` on PORT. Not set: no `/metrics` there.',
    ),
};
