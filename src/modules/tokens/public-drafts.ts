// What public callers may say of a token, and what they learn of it: nothing that depends on what is stored.
import type { PublicAccess } from '../access/caller.ts';
import type { FieldErrorCollector } from '../../platform/base/errors.ts';
import type { Json } from '../../platform/json/json.ts';

/** The attributes of a token that a public caller may send. */
const publicNames: ReadonlySet<string> = new Set(['type', 'data', 'metadata', 'expires_at', 'bound_to']);

/** How far ahead a public caller may set the end of a token. */
const EXPIRES_IN_MS_MAX = 24 * 3_600_000;

/** What is checked of a draft. */
type Checked = {
  readonly type: { readonly name: string };
  readonly container: string;
  readonly metadata: Record<string, string> | undefined;
  readonly deduplicate: boolean | undefined;
  readonly expires_at: Date | undefined;
  readonly bound_to: unknown;
};

type Path = readonly (string | number)[];

/** Adds a problem for each attribute that public callers may not send. Null and empty lists count as absent. */
export const refuseOfPublic = (
  request: Record<string, Json>,
  knownNames: ReadonlySet<string>,
  path: Path,
  problems: FieldErrorCollector,
): void => {
  for (const [name, value] of Object.entries(request)) {
    const isAbsent = value === null || (Array.isArray(value) && value.length === 0);
    if (!isAbsent && knownNames.has(name) && !publicNames.has(name))
      problems.add([...path, name], 'must not be sent with a public key', 'not_allowed');
  }
};

/**
 * Checks the type and the end of a draft, and gives it the container and metadata of the key.
 * @returns undefined where a problem was added.
 */
export const checkPublicDraft = <Draft extends Checked>(
  draft: Draft,
  { types, container, metadata, bound_to }: PublicAccess,
  now: Date,
  path: Path,
  problems: FieldErrorCollector,
): Draft | undefined => {
  const before = problems.count;
  if (types && !types.includes(draft.type.name))
    problems.add([...path, 'type'], `must be one of ${types.join(', ')} with this key`, 'not_allowed');
  if (draft.expires_at && draft.expires_at.getTime() > now.getTime() + EXPIRES_IN_MS_MAX)
    problems.add([...path, 'expires_at'], 'must be at most 24 hours ahead with a public key', 'too_large');
  if (bound_to && draft.bound_to !== undefined)
    problems.add([...path, 'bound_to'], 'must not be sent: the session says it', 'not_allowed');
  if (problems.count > before) return undefined;
  return {
    ...draft,
    container: container ?? draft.container,
    metadata: metadata ? { ...draft.metadata, ...metadata } : draft.metadata,
    deduplicate: false,
  };
};

/** What a public caller sees of a token that it has created. */
export const publicRecordOf = (
  draft: { masked: Json | undefined },
  { id, type, expires_at }: { id: string; type?: string; expires_at?: string | undefined },
) => ({
  id,
  ...(type !== undefined && { type }),
  ...(draft.masked !== undefined && { mask: draft.masked }),
  ...(expires_at !== undefined && { expires_at }),
});
