// Reads what a vault has, in the form in which files say it: names in place of ids, and only what files can hold.
import type { Strongroom } from '@strongroom/node';
import { readAll } from '../find.ts';
import { boundNamesOf, withBoundNames, withDelegatedNames } from './bound-names.ts';
import type { Value } from './check.ts';
import { attributesOf, type Kind, KINDS } from './shapes.ts';

type Attributes = Record<string, Value>;

/** A record of the vault. */
export type Current = {
  kind: Kind;
  id: string;
  name: string;
  attributes: Attributes;
  /** Changes with each change of the record. */
  stamp: string;
  /** Whether it is a formula of the vault itself, which no file changes. */
  isOfficial: boolean;
  hasCertificate: boolean;
  /** What the rules of an application name in bounds, and has changed since they were saved. */
  suspended: { kind: Kind; name: string }[];
};

export type State = {
  tenantId: string;
  records: Current[];
  /** The application of the key in use. */
  ownId: string;
};

type Stored = { id: string; name: string; created_at: string; modified_at?: string };

const SIZE = 100;

const pick = (kind: Kind, record: object): Attributes => {
  const names = new Set(attributesOf(kind));
  return Object.fromEntries(Object.entries(record).filter(([name]) => names.has(name))) as Attributes;
};

const make = (kind: Kind, record: Stored, attributes: Attributes, rest: Partial<Current> = {}): Current => ({
  kind,
  id: record.id,
  name: record.name,
  attributes,
  stamp: record.modified_at ?? record.created_at,
  isOfficial: false,
  hasCertificate: false,
  suspended: [],
  ...rest,
});

/**
 * The kinds that a plan reads: those of the file, and those that they refer to.
 * Applications name those that are referred to, and each reactor has its formula in it.
 */
const neededKinds = (kinds: ReadonlySet<Kind>): Set<Kind> => {
  const needed = new Set(kinds);
  if (needed.has('reactor') || needed.has('proxy')) needed.add('application');
  if (needed.has('reactor')) needed.add('formula');
  return needed;
};

/** The name of the record with an id, where no other of its kind has it; otherwise the id, as it was given. */
export const nameOf = ({ records }: Pick<State, 'records'>, kind: Kind, id: string): string => {
  const name = records.find((record) => record.kind === kind && record.id === id.toLowerCase())?.name;
  const isUnique = records.filter((record) => record.kind === kind && record.name === name).length === 1;
  return name !== undefined && isUnique ? name : id;
};

/** The id of the record that a name, or an id in its place, stands for. */
export const idOf = ({ records }: Pick<State, 'records'>, kind: Kind, name: string): string | undefined =>
  records.find((record) => record.kind === kind && (record.name === name || record.id === name.toLowerCase()))?.id;

/** @throws StrongroomError where the key may not read one of the kinds. */
export const readState = async (vault: Strongroom, kinds: ReadonlySet<Kind>): Promise<State> => {
  const needed = neededKinds(kinds);
  const own = await vault.applications.getOwn();
  const records: Current[] = [];
  const applicationNames = new Map<string, string>();
  if (needed.has('application'))
    for (const each of await readAll(vault.applications.list({ size: SIZE }))) {
      applicationNames.set(each.id, each.name);
      records.push(make('application', each, pick('application', each)));
    }
  if (needed.has('formula'))
    for (const each of await readAll(vault.reactorFormulas.list({ size: SIZE })))
      records.push(make('formula', each, pick('formula', each), { isOfficial: each.type === 'official' }));
  if (needed.has('reactor'))
    for (const each of await readAll(vault.reactors.list({ size: SIZE }))) {
      const { formula: _, application: __, ...rest } = pick('reactor', each);
      const formula: Attributes = each.code === undefined ? { formula: each.formula.name } : {};
      const application: Attributes = each.application ? { application: each.application.name } : {};
      records.push(make('reactor', each, { ...rest, ...formula, ...application }));
    }
  if (needed.has('proxy'))
    for (const each of await readAll(vault.proxies.list({ size: SIZE }))) {
      const name = each.application_id === undefined ? undefined : applicationNames.get(each.application_id);
      const attributes = { ...pick('proxy', each), ...(name !== undefined && { application: name }) };
      records.push(make('proxy', each, attributes, { hasCertificate: each.client_certificate !== undefined }));
    }
  if (needed.has('webhook'))
    for (const each of await readAll(vault.webhooks.list({ size: SIZE })))
      records.push(make('webhook', each, pick('webhook', each)));
  if (needed.has('tenant')) {
    const tenant = await vault.tenant.get();
    const attributes = { name: tenant.name, settings: tenant.settings };
    records.push(
      make(
        'tenant',
        tenant,
        withDelegatedNames(attributes, (kind, id) => nameOf({ records }, kind, id)),
      ),
    );
  }
  for (const record of records.filter(({ kind }) => kind === 'application')) {
    if (boundNamesOf(record.attributes).length === 0) continue;
    const toName = (kind: Kind, id: string): string => nameOf({ records }, kind, id);
    record.attributes = withBoundNames(record.attributes, toName);
    if (kinds.has('application'))
      record.suspended = ((await vault.applications.get(record.id)).suspended_rules ?? []).flatMap(
        ({ proxies = [], reactors = [] }) => [
          ...proxies.map((id) => ({ kind: 'proxy' as const, name: toName('proxy', id) })),
          ...reactors.map((id) => ({ kind: 'reactor' as const, name: toName('reactor', id) })),
        ],
      );
  }
  return { tenantId: own.tenant_id, records, ownId: own.id };
};

/** What a plan is bound to: any change of these records makes another one. No values are in it. */
export const stampOf = ({ tenantId, records }: State): string =>
  JSON.stringify([
    tenantId,
    records.map(({ kind, id, stamp, isOfficial }) => [kind, id, isOfficial ? '' : stamp].join(' ')).toSorted(),
  ]);

export const orderOf = (kind: Kind): number => (kind === 'tenant' ? KINDS.length : KINDS.indexOf(kind));
