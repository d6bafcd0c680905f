// Row types of tokens, as written and as read.
import { sortedJson } from '../../../platform/crypto/seal.ts';
import type { StoredBound } from '../../access/bounds.ts';
import type { NewLog } from '../../../platform/db/audit-rows.ts';

/** A token to be written. `sealed` and `cvc_sealed` are base64. Tokens with one `log_id` share a log row. */
export type NewToken = {
  id: string;
  type: string;
  sealed: string;
  fingerprint?: string | undefined;
  fingerprint_expression?: string | undefined;
  container: string;
  metadata?: Record<string, string> | undefined;
  search_indexes?: string[] | undefined;
  search_digests?: string[] | undefined;
  expires_at?: string | undefined;
  bound_to?: StoredBound | undefined;
  /** Whether a mask hides the value from callers with a permission and no rule that reveals. */
  masked: boolean;
  cvc_sealed?: string | undefined;
  cvc_expires_at?: string | undefined;
  created_at: string;
  /** Null for the operator. */
  created_by: string | null;
  log_id: string;
};

/** The columns of the log rows of created tokens that the tokens do not have. */
export type NewTokenLog = Pick<
  NewLog,
  | 'actor_type'
  | 'message'
  | 'trace_id'
  | 'otel_trace_id'
  | 'ip'
  | 'reactor_id'
  | 'proxy_id'
  | 'application_id'
  | 'code_application_id'
>;

/** A stored token. Absent values are null. */
export type StoredToken = {
  id: string;
  type: string;
  /** Null where the rows of a request exceed SEALED_BYTES_MAX together. */
  sealed: Buffer;
  fingerprint: string | null;
  fingerprint_expression: string | null;
  container: string;
  metadata: Record<string, string> | null;
  search_indexes: string[] | null;
  expires_at: Date | null;
  bound_to: StoredBound | null;
  /** Whether a mask hides the value from callers without a rule that reveals; null where it is unknown. */
  masked: boolean | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

/** The columns needed to open a token, which verifies them, and to decide about access. */
export type StoredValue = Pick<
  StoredToken,
  'id' | 'type' | 'sealed' | 'container' | 'expires_at' | 'fingerprint' | 'fingerprint_expression' | 'bound_to'
>;

/** What opens a token. `masked` is verified where it was read. */
export type SealedToken = Omit<StoredValue, 'bound_to'> & { bound_to: object | null } & Partial<
    Pick<StoredToken, 'masked'>
  >;

/** The stored security code of a card. It may have expired. */
export type FoundCvc = { cvc_sealed: Buffer | null; cvc_expires_at: Date | null };

/** Two tokens with the same digest of the same expression are equal, if they may go to the same places. */
export type Fingerprint = {
  fingerprint: string;
  fingerprint_expression: string;
  bound_to?: StoredBound | null | undefined;
};

/** A map key for a fingerprint, its expression and its bound. */
export const nameOfFingerprint = ({ fingerprint, fingerprint_expression, bound_to }: Fingerprint): string =>
  `${fingerprint} ${bound_to ? sortedJson(bound_to) : ''} ${fingerprint_expression}`;

/** The fingerprints that must be unique, and the containers in which equal tokens count. */
export type UniqueAmong = {
  fingerprints: readonly Fingerprint[];
  /** LIKE patterns. Tokens in other containers do not count. */
  containers: readonly string[];
};
