// Bounds of rules pin the proxies and reactors that they name. Says which rules a plan confirms, and which it suspends.
import { type BoundName, boundNamesOf } from './bound-names.ts';
import type { Step } from './plan.ts';
import type { Kind } from './shapes.ts';
import type { Current } from './state.ts';
import type { Value } from './check.ts';

type Attributes = { [name: string]: Value };

const hostOf = (url: Value | undefined): string | undefined =>
  URL.canParse(String(url)) ? new URL(String(url)).host : undefined;

/** What the server pins of a proxy (`pinOfProxy`), by the names that a file has. */
const CODE = ['request_transform', 'response_transform'];
/** Code may read from these where to send, so a bound pins them where there is code. */
const READ_BY_CODE = ['configuration', 'application'];
const OF_AMOUNTS = ['amount', 'cvc'];

const changesProxy = ({ current, changed }: Step, hasAllowance: boolean): boolean => {
  const before = current?.attributes ?? {};
  const isCoded = CODE.some((name) => (name in changed ? changed[name] : before[name]) != null);
  const pinned = [...CODE, 'idempotency_header', ...(isCoded ? READ_BY_CODE : []), ...(hasAllowance ? OF_AMOUNTS : [])];
  const isElsewhere =
    changed['destination_url'] !== undefined &&
    hostOf(changed['destination_url']) !== hostOf(before['destination_url']);
  return isElsewhere || pinned.some((name) => changed[name] !== undefined);
};

const changesReactor = ({ changed }: Step): boolean =>
  ['code', ...READ_BY_CODE].some((name) => changed[name] !== undefined);

/** Whether a step changes what a bound has pinned. */
const changesTarget = (step: Step, { kind, name, hasAllowance }: BoundName, records: readonly Current[]): boolean => {
  if (step.action !== 'change') return false;
  if (step.kind === 'formula' && kind === 'reactor') {
    const reactor = records.find((record) => record.kind === kind && record.name === name);
    return reactor?.attributes['formula'] === step.name && step.changed['code'] !== undefined;
  }
  if (step.kind !== kind || step.name !== name) return false;
  return kind === 'proxy' ? changesProxy(step, hasAllowance) : changesReactor(step);
};

const titleOf = (attributes: Attributes, { path: [, at] }: BoundName): string => {
  const rule = (attributes['rules'] as Attributes[])[at as number];
  const { description } = rule ?? {};
  return typeof description === 'string' && description !== '' ? JSON.stringify(description) : `${Number(at) + 1}`;
};

const isSame =
  ({ kind, name }: { kind: Kind; name: string }) =>
  (other: { kind: Kind; name: string }): boolean =>
    kind === other.kind && name === other.name;

/**
 * What a save of the rules confirms, in words: names that stay and whose records have changed, or are changed by the plan.
 * @param steps the other steps of the plan, where the application is saved after them; otherwise none.
 */
export const confirmedBy = (
  current: Current,
  after: Attributes,
  steps: readonly Step[],
  records: readonly Current[],
): string[] => {
  const before = boundNamesOf(current.attributes);
  return boundNamesOf(after)
    .filter((named) => before.some(isSame(named)))
    .flatMap((named) => {
      const title = `its rule ${titleOf(after, named)} takes the ${named.kind} ${JSON.stringify(named.name)}`;
      if (steps.some((step) => changesTarget(step, named, records))) return [`${title} as this plan makes it`];
      return current.suspended.some(isSame(named))
        ? [`${title} as it is now: it has changed since the rule was saved, and gets no value until then`]
        : [];
    });
};

/** Which rules a step suspends, because the file does not have them. */
export const suspendedBy = (step: Step, applications: readonly Current[], records: readonly Current[]): string[] =>
  applications.flatMap(({ name, attributes }) =>
    boundNamesOf(attributes)
      .filter((named) => changesTarget(step, named, records))
      .map(
        (named) =>
          `suspends the rule ${titleOf(attributes, named)} of the application ${JSON.stringify(name)} until its rules are saved`,
      ),
  );
