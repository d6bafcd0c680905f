// Compares a file with a vault: what is made, changed and removed, and what that widens.
import { createHash } from 'node:crypto';
import { nearestName } from '../../../../src/platform/base/unknown-names.ts';
import { CliError } from '../exit-codes.ts';
import type { Value } from './check.ts';
import { type BoundName, boundNamesOf, delegatedNamesOf, withBoundNames, withDelegatedNames } from './bound-names.ts';
import { isSame } from './compare.ts';
import { confirmedBy, suspendedBy } from './confirms.ts';
import type { Kind } from './shapes.ts';
import { type Current, nameOf, orderOf, stampOf, type State } from './state.ts';
import { type Entry, fileError, placeIn, type VaultFile } from './vault-file.ts';
import { widensOf } from './widens.ts';

export type Attributes = Record<string, Value>;

export type Step = {
  action: 'make' | 'change' | 'remove';
  kind: Kind;
  name: string;
  /** What the vault has; undefined for what is made. */
  current?: Current;
  /** Attributes that the file gives and the vault has otherwise. */
  changed: Attributes;
  /** In words, what callers may do after the step that they may not before. */
  widens: string[];
  /** What else the step does, in words. */
  notes?: string[];
  /** File, line and column of the record; undefined for one that the file does not have. */
  place?: string;
};

export type Plan = {
  steps: Step[];
  /** Records of the vault that the file does not name, and that stay. */
  kept: Current[];
  /** Identifies file, options and state: a plan that is applied later must have the same. */
  digest: string;
};

const isNamed = (kind: Kind, name: string) => (record: Current) => record.kind === kind && record.name === name;

/** An id in the place of a name, as the API has it. */
const isWithId = (kind: Kind, id: string) => (record: Current) =>
  record.kind === kind && record.id === id.toLowerCase();

/** @throws CliError where two records of the vault have the name. */
const findCurrent = (state: State, kind: Kind, name: string): Current | undefined => {
  if (kind === 'tenant') return state.records.find((record) => record.kind === 'tenant');
  const found = state.records.filter((record) => isNamed(kind, name)(record) && !record.isOfficial);
  if (found.length > 1)
    throw new CliError(
      `The vault has ${found.length} of the kind ${kind} with the name ${JSON.stringify(name)}: rename all but one (${found.map(({ id }) => id).join(', ')}).`,
    );
  return found[0];
};

/** Each record that an entry names, and where. */
const referencesOf = ({ kind, attributes }: Entry): Omit<BoundName, 'hasAllowance'>[] => {
  if (kind === 'application') return boundNamesOf(attributes);
  if (kind === 'tenant') return delegatedNamesOf(attributes);
  if (kind !== 'reactor' && kind !== 'proxy') return [];
  return (['application', 'formula'] as const).flatMap((attribute) => {
    const name = attributes[attribute];
    return typeof name === 'string' ? [{ kind: attribute, name, path: [attribute] }] : [];
  });
};

const checkReferences = (file: VaultFile, state: State, entry: Entry): void => {
  for (const { kind, name, path } of referencesOf(entry)) {
    const inFile = file.entries.some((each) => each.kind === kind && each.name === name);
    const found = state.records.filter((record) => isNamed(kind, name)(record) || isWithId(kind, name)(record));
    if (found.length > 1)
      throw fileError(file, entry, path, `The vault has ${found.length} of the kind ${kind} with this name.`);
    if (inFile || found.length === 1) continue;
    const names = [...file.entries, ...state.records].filter((each) => each.kind === kind).map((each) => each.name);
    const nearest = nearestName(name, names);
    const hint = nearest === undefined ? '' : ` Did you mean ${JSON.stringify(nearest)}?`;
    throw fileError(file, entry, path, `There is no ${kind} with the name ${JSON.stringify(name)}.${hint}`);
  }
};

/** @throws CliError for a change that no request can make. */
const checkChange = (file: VaultFile, entry: Entry, current: Current, changed: Attributes): void => {
  if (entry.kind === 'application' && changed['type'] !== undefined)
    throw fileError(file, entry, ['type'], 'The type of an application cannot change: give it another name.');
  const isOtherFormula = entry.kind === 'reactor' && changed['formula'] !== undefined;
  const isOwnCode =
    entry.kind === 'reactor' && changed['code'] !== undefined && current.attributes['code'] === undefined;
  if (isOtherFormula || isOwnCode)
    throw fileError(
      file,
      entry,
      [isOwnCode ? 'code' : 'formula'],
      'The formula of a reactor cannot change: give it another name.',
    );
};

/** Settings are an object of which a file may have some. */
const settingsChange = (given: Attributes, before: Attributes): Attributes | undefined => {
  const changed = Object.entries(given).filter(([name, value]) => (before[name] ?? null) !== value);
  return changed.length === 0 ? undefined : Object.fromEntries(changed);
};

const changesOf = (given: Attributes, current: Current): Attributes =>
  Object.fromEntries(
    Object.entries(given).flatMap(([attribute, value]): [string, Value][] => {
      const before = current.attributes[attribute];
      if (attribute === 'settings') {
        const changed = settingsChange((value ?? {}) as Attributes, (before ?? {}) as Attributes);
        return changed ? [[attribute, changed]] : [];
      }
      return isSame(attribute, value, before) ? [] : [[attribute, value]];
    }),
  );

const isEmptyList = (value: Value | undefined): boolean => !Array.isArray(value) || value.length === 0;

/** What a record cannot be made without, although a file may leave it out where it is there. */
const checkMade = (file: VaultFile, entry: Entry): void => {
  const { kind, attributes } = entry;
  const fail = (text: string): never => {
    throw fileError(file, entry, ['name'], text);
  };
  const has = (name: string): boolean => attributes[name] !== undefined && attributes[name] !== null;
  if (kind === 'application' && isEmptyList(attributes['permissions']) && isEmptyList(attributes['rules']))
    fail('An application needs a permission or a rule.');
  if (kind === 'formula' && !has('code')) fail('A formula needs code or code_file.');
  if (kind === 'reactor' && !has('code') && !has('formula')) fail('A reactor needs formula, or code or code_file.');
  if (kind === 'webhook' && (!has('url') || !has('events'))) fail('A webhook needs url and events.');
  if (kind === 'proxy' && !has('destination_url')) fail('A proxy needs destination_url.');
};

const stepFor = (file: VaultFile, state: State, entry: Entry): Step | undefined => {
  const { kind, name } = entry;
  checkReferences(file, state, entry);
  const named = kind === 'tenant' ? withDelegatedNames : withBoundNames;
  const attributes = named(entry.attributes, (ofKind, id) => nameOf(state, ofKind, id));
  const current = findCurrent(state, kind, name);
  if (current === undefined) {
    checkMade(file, entry);
    const made = { action: 'make' as const, kind, name, changed: attributes, place: placeIn(file, entry) };
    return { ...made, widens: widensOf(made) };
  }
  const changed = changesOf(attributes, current);
  if (Object.keys(changed).length === 0) return undefined;
  checkChange(file, entry, current, changed);
  const step = { action: 'change' as const, kind, name: kind === 'tenant' ? current.name : name, current, changed };
  return { ...step, widens: widensOf(step), place: placeIn(file, entry) };
};

/**
 * Bounds pin what they name. To save an application confirms its rules: the plan says so, and saves those of the file again where what
 * they name has changed, or changes.
 */
const withConfirmations = (file: VaultFile, state: State, steps: readonly Step[]): Step[] => {
  const { records } = state;
  const entryOf = ({ name }: { name: string }): Entry | undefined =>
    file.entries.find((entry) => entry.kind === 'application' && entry.name === name);
  const hasRules = (record: { name: string }): boolean => entryOf(record)?.attributes['rules'] !== undefined;
  const applications = records.filter(({ kind }) => kind === 'application');
  const confirmed = applications.flatMap((current): Step[] => {
    const step = steps.find((each) => each.current === current);
    if (step === undefined && !hasRules(current)) return [];
    const after = { ...current.attributes, ...step?.changed };
    const sentences = confirmedBy(current, after, hasRules(current) ? steps : [], records);
    if (sentences.length === 0) return [];
    const { name } = current;
    const saved = step ?? { action: 'change', kind: 'application', name, current, changed: {}, widens: [] };
    const changed = hasRules(current) ? { ...saved.changed, rules: after['rules'] as Value } : saved.changed;
    return [{ ...saved, changed, widens: [...saved.widens, ...sentences] }];
  });
  const others = steps.filter(
    (step) => !confirmed.some(({ current }) => current === step.current && current !== undefined),
  );
  const kept = applications.filter((record) => !hasRules(record));
  return [...confirmed, ...others].map((step) => {
    const notes = suspendedBy(step, kept, records);
    return notes.length === 0 ? step : { ...step, notes };
  });
};

/** @throws CliError where the file names what it would remove: applied again, it would name nothing. */
const checkRemoved = (file: VaultFile, removed: readonly Current[]): void => {
  for (const entry of file.entries)
    for (const { kind, name, path } of referencesOf(entry))
      if (removed.some(isNamed(kind, name)))
        throw fileError(
          file,
          entry,
          path,
          `--prune would remove the ${kind} ${JSON.stringify(name)}, which is named here: name it in its section too.`,
        );
};

/** Records whose code runs with the permissions of an application. */
const losersOf = ({ kind, name }: Current, { records }: State): Current[] =>
  kind === 'application' ? records.filter(({ attributes }) => attributes['application'] === name) : [];

const describeLoss = ({ kind, name }: Current): string =>
  `the ${kind} ${JSON.stringify(name)} stays, without its permissions`;

/** @throws CliError for two records of one name, a reference to nothing, and a change that is not possible. */
export const makePlan = (file: VaultFile, state: State, { prune }: { prune: boolean }): Plan => {
  const asked = file.entries.flatMap((entry) => stepFor(file, state, entry) ?? []);
  const steps = withConfirmations(file, state, asked).toSorted((one, other) => orderOf(one.kind) - orderOf(other.kind));
  const extra = state.records.filter(
    ({ kind, name, isOfficial }) =>
      kind !== 'tenant' &&
      !isOfficial &&
      file.kinds.has(kind) &&
      !file.entries.some((entry) => entry.kind === kind && entry.name === name),
  );
  // What uses others goes first. The key in use would not live to see the end.
  const removed = prune ? extra.filter(({ id }) => id !== state.ownId) : [];
  checkRemoved(file, removed);
  const removals = removed
    .toSorted((one, other) => orderOf(other.kind) - orderOf(one.kind))
    .map((current): Step => ({
      action: 'remove',
      kind: current.kind,
      name: current.name,
      current,
      changed: {},
      widens: [],
      notes: losersOf(current, state)
        .filter((each) => !removed.includes(each))
        .map(describeLoss),
    }));
  // The application of the key in use changes last: with fewer permissions, the key could not do the rest.
  const isOwn = ({ current }: Step): boolean => current?.id === state.ownId;
  const all = [...steps, ...removals];
  const digest = createHash('sha256')
    .update(JSON.stringify([file.digest, prune, stampOf(state)]))
    .digest('hex');
  return {
    steps: [...all.filter((step) => !isOwn(step)), ...all.filter(isOwn)],
    kept: extra.filter((each) => !removed.includes(each) && (prune || each.id !== state.ownId)),
    digest,
  };
};
