// Accepts the attributes that clients of the earlier API send in token requests, and refuses unknown ones.
// The attribute `privacy` selects a container, as `containers` does. See docs/earlier-clients.md.
import { type FieldErrorCollector } from '../../platform/base/errors.ts';
import { NOT_SUPPORTED, unknownName } from '../../platform/base/unknown-names.ts';
import type { Json } from '../../platform/json/json.ts';

type Path = readonly (string | number)[];

/** Attributes of a token record. A client that sends a record back may leave them in; they are ignored. */
const readOnlyNames: ReadonlySet<string> = new Set([
  'tenant_id',
  'fingerprint',
  'card',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
  '_extras',
]);

const unsupportedNames: ReadonlySet<string> = new Set(['encryption', 'encrypted', 'token_intent_id']);

const privacyNames: ReadonlySet<string> = new Set(['classification', 'impact_level', 'restriction_policy']);

/** Adds a problem for every attribute that is unknown and that the earlier API does not have. */
export const refuseUnknownAttributes = (
  request: Record<string, Json>,
  known: ReadonlySet<string>,
  path: Path,
  problems: FieldErrorCollector,
): void => {
  for (const name of Object.keys(request)) {
    if (known.has(name) || readOnlyNames.has(name) || name === 'privacy') continue;
    if (!unsupportedNames.has(name)) problems.add([...path, name], unknownName(name, known), 'unknown_name');
    else if (request[name] !== null) problems.add([...path, name], NOT_SUPPORTED, 'not_supported');
    if (problems.stopped) return;
  }
};

/** One segment of a container path. */
const segmentPattern = /^[A-Za-z0-9_-]{1,100}$/;

/**
 * The container that `privacy` selects, `/<classification>/<impact_level>/`.
 * @param container the current or default container, from which missing segments are taken.
 * @returns undefined if `privacy` selects no container, or if a problem was added.
 */
export const containerOfPrivacy = (
  request: Record<string, Json>,
  container: string,
  path: Path,
  problems: FieldErrorCollector,
): string | undefined => {
  const privacy = request['privacy'] ?? null;
  if (privacy === null) return undefined;
  const place = [...path, 'privacy'];
  if (typeof privacy !== 'object' || Array.isArray(privacy)) {
    problems.add(place, 'must be an object', 'wrong_type');
    return undefined;
  }
  if ((request['containers'] ?? null) !== null) {
    problems.add(place, 'must not be combined with containers', 'not_allowed');
    return undefined;
  }
  const before = problems.count;
  for (const name of Object.keys(privacy)) {
    if (!privacyNames.has(name)) problems.add([...place, name], unknownName(name, privacyNames), 'unknown_name');
    if (problems.stopped) return undefined;
  }

  const [classification, impactLevel, ...deeper] = container.split('/').slice(1, -1);
  const isPair = impactLevel !== undefined && deeper.length === 0;
  const segmentOf = (name: string, otherwise: string | undefined): string | undefined => {
    const value = privacy[name] ?? null;
    if (value === null) {
      if (!isPair)
        problems.add([...place, name], 'must be set, because the container of the token does not have two segments');
      return otherwise;
    }
    if (typeof value === 'string' && segmentPattern.test(value)) return value.toLowerCase();
    problems.add([...place, name], 'must be letters, digits, _ and -');
    return undefined;
  };

  // A restriction policy alone selects no container.
  if ((privacy['classification'] ?? null) === null && (privacy['impact_level'] ?? null) === null) return undefined;
  const first = segmentOf('classification', classification);
  const second = segmentOf('impact_level', impactLevel);
  return problems.count === before && first !== undefined && second !== undefined ? `/${first}/${second}/` : undefined;
};
