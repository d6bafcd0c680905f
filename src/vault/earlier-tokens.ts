// Names in token requests and patches: which are known, and what becomes of those that published clients of the earlier API
// send. `privacy` says where a token goes, as `containers` does; docs/earlier-clients.md tells callers.
import { NOT_SUPPORTED, unknownName } from '../unknown-names.ts';
import type { Json } from './json.ts';
import type { Problems } from './token-request.ts';

type Path = readonly (string | number)[];

/** Of a token's record, and not to be asked for: clients that send a record back may leave them in. */
const readOnlyNames: ReadonlySet<string> = new Set([
  'tenant_id',
  'fingerprint',
  'created_by',
  'created_at',
  'modified_by',
  'modified_at',
  '_extras',
]);

const unsupportedNames: ReadonlySet<string> = new Set(['encryption', 'token_intent_id']);

const privacyNames: ReadonlySet<string> = new Set(['classification', 'impact_level', 'restriction_policy']);

/** Adds a problem for every attribute that is neither known nor one that clients of the earlier API may send. */
export const refuseUnknownAttributes = (
  request: Record<string, Json>,
  known: ReadonlySet<string>,
  path: Path,
  problems: Problems,
): void => {
  for (const name of Object.keys(request)) {
    if (known.has(name) || readOnlyNames.has(name) || name === 'privacy') continue;
    if (!unsupportedNames.has(name)) problems.add([...path, name], unknownName(name, known));
    else if (request[name] !== null) problems.add([...path, name], NOT_SUPPORTED);
    if (problems.stopped) return;
  }
};

/** One name of a container path. */
const segmentPattern = /^[A-Za-z0-9_-]{1,100}$/;

/**
 * The container that `privacy` stands for, `/<classification>/<impact_level>/`.
 * @param container what it leaves out is as this one has it: that of the token's type, or where the token is.
 * @returns undefined where it says nothing of the container, or where a problem was added.
 */
export const containerOfPrivacy = (
  request: Record<string, Json>,
  container: string,
  path: Path,
  problems: Problems,
): string | undefined => {
  const privacy = request['privacy'] ?? null;
  if (privacy === null) return undefined;
  const place = [...path, 'privacy'];
  if (typeof privacy !== 'object' || Array.isArray(privacy)) {
    problems.add(place, 'must be an object');
    return undefined;
  }
  if ((request['containers'] ?? null) !== null) {
    problems.add(place, 'must not stand beside containers');
    return undefined;
  }
  const before = problems.count;
  for (const name of Object.keys(privacy))
    if (!privacyNames.has(name)) problems.add([...place, name], unknownName(name, privacyNames));

  const [classification, impactLevel, ...deeper] = container.split('/').slice(1, -1);
  const isPair = impactLevel !== undefined && deeper.length === 0;
  const segmentOf = (name: string, otherwise: string | undefined): string | undefined => {
    const given = privacy[name] ?? null;
    if (given === null) {
      if (!isPair) problems.add([...place, name], `must be given: the token is not in a container of two names`);
      return otherwise;
    }
    if (typeof given === 'string' && segmentPattern.test(given)) return given.toLowerCase();
    problems.add([...place, name], 'must be letters, digits, _ and -');
    return undefined;
  };

  // A restriction policy alone moves nothing.
  if ((privacy['classification'] ?? null) === null && (privacy['impact_level'] ?? null) === null) return undefined;
  const first = segmentOf('classification', classification);
  const second = segmentOf('impact_level', impactLevel);
  return problems.count === before && first !== undefined && second !== undefined ? `/${first}/${second}/` : undefined;
};
