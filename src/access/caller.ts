// Who is calling, once that is known: everything the rules need to decide, and nothing that could identify a secret.
import type { AccessRule } from './rules.ts';
import type { Permission } from './permissions.ts';

export type Caller = {
  readonly tenant_id: string;
  readonly actor_id: string;
  readonly actor_type: 'application' | 'user';
  readonly permissions: ReadonlySet<Permission>;
  /** By priority, 1 first. */
  readonly rules: readonly AccessRule[];
  /** The tenant's setting: equal values share a token unless a request says otherwise. */
  readonly deduplicate_tokens: boolean;
};
