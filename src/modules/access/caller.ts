// The authenticated caller of a request, with what access rules need to decide. It holds no secret.
import type { DelegatedPayments } from './delegated-payments.ts';
import { type AccessRule } from './access-rule.ts';
import type { EchoMode } from './echo-mode.ts';
import type { StoredBound } from './bounds.ts';
import type { ApplicationLimits } from '../../platform/base/application-limits.ts';
import type { Permission } from './permissions.ts';

/** What a public caller may create, and from which pages. */
export type PublicAccess = {
  /** Origins of the pages that may use it (RFC 6454 section 6.2). Empty: no page may. */
  readonly origins: readonly string[];
  /** The types of tokens; undefined for all. */
  readonly types?: readonly string[];
  /** The container of its tokens; undefined for the default of the type. */
  readonly container?: string | undefined;
  /** Added to the metadata of each token. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Bound of each token. */
  readonly bound_to?: StoredBound | undefined;
  /** Limit for one client address. */
  readonly creates_per_minute: number;
  /** Undefined for an application. */
  readonly session?:
    | {
        readonly id: string;
        readonly expires_at: Date;
        readonly created_by: string;
        /** The card whose security code it collects; undefined for one that creates tokens. */
        readonly token_id?: string | undefined;
        /** Digest of the page through which it acts, which works once. */
        readonly page_digest?: Buffer;
      }
    | undefined;
};

export type Caller = {
  readonly tenant_id: string;
  readonly actor_id: string;
  readonly actor_type: 'application' | 'user' | 'session';
  readonly permissions: ReadonlySet<Permission>;
  /** Rules by priority, 1 first. */
  readonly rules: readonly AccessRule[];
  /** Searches find values that are shown masked: members of the console may reveal each of them. */
  readonly findsAnyValue?: boolean;
  /** The setting of the tenant: equal values share a token, unless a request says otherwise. */
  readonly deduplicate_tokens: boolean;
  /** The setting of the tenant: an expression over a path that a token has not is null in place of an error. */
  readonly allows_absent_paths?: boolean;
  /** The setting of the tenant: a member says why before a value is shown. */
  readonly needs_reveal_reason?: boolean;
  /** Mode of the application; undefined if it says nothing. */
  readonly echo_guard?: EchoMode | undefined;
  /** The setting of the tenant: the echo guard where nothing else says it. */
  readonly tenant_echo_guard?: EchoMode | undefined;
  readonly delegated_payments?: DelegatedPayments | undefined;
  /** Hosts that it may send to through the proxy; undefined for any. */
  readonly allowed_hosts?: readonly string[] | undefined;
  /** Undefined for a caller that is not limited to creating tokens. */
  readonly publicAccess?: PublicAccess | undefined;
  /** Undefined for a caller without any, such as a member. */
  readonly limits?: ApplicationLimits | undefined;
  /** The API key that the request came with; undefined for a caller without one, such as a member. */
  readonly key?:
    | {
        readonly public_id: string;
        readonly expires_at: Date | null;
        readonly allowed_addresses: readonly string[];
      }
    | undefined;
};
