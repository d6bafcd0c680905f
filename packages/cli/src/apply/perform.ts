// Makes the changes of a plan, one request each, in an order in which every record finds those that it refers to.
import type { Strongroom } from '@strongroom/node';
import { CliError, describeFailure } from '../exit-codes.ts';
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
      return (await vault.applications.create({ ...body, create_key: false })).id;
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
  step: Step & { current: NonNullable<Step['current']> },
): Promise<void> => {
  const { kind, current, changed } = step;
  const { id, attributes } = current;
  const patch: any = { ...changed, ...reference(ids, 'application', changed), ...configurationPatch(step) };
  switch (kind) {
    case 'application': {
      const { type: _, ...whole } = { ...attributes, ...changed } as any;
      await vault.applications.update(id, whole);
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
      const settings = { ...(attributes['settings'] as object), ...(changed['settings'] as object | undefined) };
      const kept = Object.entries(settings).filter(([, value]) => value !== null);
      await vault.tenant.update({ ...attributes, ...changed, settings: Object.fromEntries(kept) } as any);
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
  for (const [at, step] of plan.steps.entries()) {
    const { action, kind, name, current } = step;
    try {
      if (action === 'make') ids.add(kind, name, await make(vault, ids, step));
      else if (current && action === 'change') await change(vault, ids, { ...step, current });
      else if (current) await remove(vault, kind, current.id);
    } catch (error) {
      const { line, exitCode } = describeFailure(error);
      const done =
        at === 0
          ? 'Nothing was changed.'
          : `${at} of ${plan.steps.length} steps are done; apply the file again for the rest.`;
      throw new CliError(`To ${action} the ${kind} ${JSON.stringify(name)} failed: ${line} ${done}`, exitCode);
    }
    onDone(step);
  }
};
