// Makes the changes of a plan, one request each, in an order in which every record finds those that it refers to.
import type { Strongroom } from '@strongroom/node';
import { CliError, describeFailure } from '../exit-codes.ts';
import { boundNamesOf, withBoundNames, withClosedBounds, withDelegatedNames } from './bound-names.ts';
import type { Value } from './check.ts';
import type { Attributes, Plan, Step } from './plan.ts';
import type { Kind } from './shapes.ts';
import type { State } from './state.ts';

type Ids = {
  find(kind: Kind, name: Value | undefined): string | undefined;
  add(kind: Kind, name: string, id: string): void;
};

const createIds = ({ records }: State): Ids => {
  const ids = new Map(records.map(({ kind, name, id }) => [`${kind} ${name}`, id]));
  return {
    find: (kind, name) => ids.get(`${kind} ${String(name)}`),
    add: (kind, name, id) => void ids.set(`${kind} ${name}`, id),
  };
};

/** Null removes a reference; what is left out is not in the request. */
const reference = (ids: Ids, kind: 'application' | 'formula', attributes: Attributes): object => {
  const name = attributes[kind];
  if (name === undefined) return {};
  return { [kind]: name === null ? null : { id: ids.find(kind, name) } };
};

const toId =
  (ids: Ids) =>
  (kind: Kind, name: string): string =>
    ids.find(kind, name) ?? name;

/** Attributes of an application as a request has them: ids stand where the file has names. */
const withIds = (ids: Ids, attributes: Attributes): Attributes => withBoundNames(attributes, toId(ids));

/** A merge patch keeps what it does not name: values that go are named with null. */
const configurationPatch = ({ current, changed }: Step): object => {
  if (changed['configuration'] === undefined) return {};
  const given = (changed['configuration'] ?? {}) as Attributes;
  const gone = Object.keys((current?.attributes['configuration'] ?? {}) as Attributes).filter(
    (name) => !(name in given),
  );
  return { configuration: { ...Object.fromEntries(gone.map((name) => [name, null])), ...given } };
};

const make = async (vault: Strongroom, ids: Ids, { kind, changed }: Step): Promise<string> => {
  const body: any = { ...changed, ...reference(ids, 'application', changed), ...reference(ids, 'formula', changed) };
  switch (kind) {
    case 'application':
      return (await vault.applications.create({ ...withIds(ids, body), create_key: false } as any)).id;
    case 'formula':
      return (await vault.reactorFormulas.create({ ...body, type: 'private' })).id;
    case 'reactor':
      return (await vault.reactors.create(body)).id;
    case 'webhook':
      // The secret in the answer is not shown: plans are applied where output is kept.
      return (await vault.webhooks.create(body)).id;
    default:
      return (await vault.proxies.create(body)).id;
  }
};

const change = async (
  vault: Strongroom,
  ids: Ids,
  step: Step & { id: string; attributes: Attributes },
): Promise<void> => {
  const { kind, id, attributes, changed } = step;
  const patch: any = { ...changed, ...reference(ids, 'application', changed), ...configurationPatch(step) };
  switch (kind) {
    case 'application': {
      const { type: _, ...whole } = { ...attributes, ...changed } as any;
      await vault.applications.update(id, withIds(ids, whole) as any);
      return;
    }
    case 'formula':
      await vault.reactorFormulas.update(id, { ...attributes, ...changed, type: 'private' } as any);
      return;
    case 'reactor':
      await vault.reactors.patch(id, patch);
      return;
    case 'proxy':
      await vault.proxies.patch(id, patch);
      return;
    case 'webhook':
      await vault.webhooks.patch(id, patch);
      return;
    default: {
      const settings: object = {
        ...(attributes['settings'] as object),
        ...(changed['settings'] as object | undefined),
      };
      const kept = Object.entries(settings).filter(([, value]) => value !== null);
      const whole = { ...attributes, ...changed, settings: Object.fromEntries(kept) as Attributes };
      await vault.tenant.update(withDelegatedNames(whole, toId(ids)) as any);
    }
  }
};

const remove = (vault: Strongroom, kind: Kind, id: string): Promise<unknown> => {
  switch (kind) {
    case 'application':
      return vault.applications.delete(id);
    case 'formula':
      return vault.reactorFormulas.delete(id);
    case 'reactor':
      return vault.reactors.delete(id);
    case 'webhook':
      return vault.webhooks.delete(id);
    default:
      return vault.proxies.delete(id);
  }
};

/** With the code of reactors. */
const NAMED_BY_BOUNDS: readonly Kind[] = ['formula', 'reactor', 'proxy'];

/**
 * The steps in an order in which each finds what it names. An application and a proxy may name each other: then the application is made
 * first, with rules that refuse every use until the proxy is there, and gets its rules whole afterwards.
 */
const orderSteps = (steps: readonly Step[], ownId: string): Step[] => {
  // A bound pins what it names, so a save of rules is after all changes of that.
  const isNaming = ({ action, kind, changed, current }: Step): boolean =>
    kind === 'application' &&
    current?.id !== ownId &&
    boundNamesOf(changed).some(
      (named) => action === 'change' || steps.some((step) => step.kind === named.kind && step.name === named.name),
    );
  const naming = steps.filter(isNaming);
  const early = steps.flatMap((step): Step[] => {
    if (!naming.includes(step)) return [step];
    return step.action === 'make' ? [{ ...step, changed: withClosedBounds(step.changed) }] : [];
  });
  const end = early.findLastIndex(({ action, kind }) => action !== 'remove' && NAMED_BY_BOUNDS.includes(kind));
  return early.toSpliced(end + 1, 0, ...naming.map((step): Step => ({ ...step, action: 'change' })));
};

const performStep = async (vault: Strongroom, ids: Ids, step: Step): Promise<void> => {
  const { action, kind, name, current } = step;
  if (action === 'make') return ids.add(kind, name, await make(vault, ids, step));
  // Without a state of before, it is an application that this plan has made.
  const id = current?.id ?? (ids.find(kind, name) as string);
  if (action === 'change') return change(vault, ids, { ...step, id, attributes: current?.attributes ?? {} });
  await remove(vault, kind, id);
};

/**
 * @param onDone is told of each step that is done.
 * @throws CliError that says how far it came: what is done stays, and the same file can be applied again.
 */
export const performPlan = async (
  vault: Strongroom,
  state: State,
  plan: Plan,
  onDone: (step: Step) => void,
): Promise<void> => {
  const ids = createIds(state);
  const steps = orderSteps(plan.steps, state.ownId);
  for (const [at, step] of steps.entries()) {
    const { action, kind, name, current, place } = step;
    try {
      await performStep(vault, ids, step);
    } catch (error) {
      const { line, exitCode } = describeFailure(error);
      const done =
        at === 0
          ? 'Nothing was changed.'
          : `${at} of ${steps.length} steps are done; apply the file again for the rest.`;
      const end = /[.?!]$/.test(line) ? '' : '.';
      const where = place === undefined ? '' : `${place}: `;
      throw new CliError(
        `${where}To ${action} the ${kind} ${JSON.stringify(name)} failed: ${line}${end} ${done}`,
        exitCode,
      );
    }
    if (action !== 'change' || current !== undefined) onDone(step);
  }
};
