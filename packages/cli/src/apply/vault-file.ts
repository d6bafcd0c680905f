// Reads a vault file: its YAML, the code that it names, and the variables that it takes values from.
import { createHash } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, relative, resolve } from 'node:path';
import { isMap, isSeq, type Node } from 'yaml';
import { nearestName } from '../../../../src/platform/base/unknown-names.ts';
import { CliError, EXIT } from '../exit-codes.ts';
import { readText } from '../input.ts';
import type { Io } from '../io.ts';
import { boundNamesOf, delegatedNamesOf } from './bound-names.ts';
import { checkNode, type Value } from './check.ts';
import { type Fault, faultsError, readYaml, type YamlFile } from './read-yaml.ts';
import { fileShape, type Kind, KINDS, SECTIONS, settingNames } from './shapes.ts';

type Attributes = Record<string, Value>;

/** A record as the file has it: attributes that are left out stay as they are. */
export type Entry = {
  kind: Kind;
  name: string;
  attributes: Attributes;
  /** Line and column of the record, or of what a path in it leads to, as far as the file has it. */
  placeOf(...path: (string | number)[]): { line: number; column: number };
};

export type VaultFile = {
  path: string;
  entries: Entry[];
  /** The kinds whose section is in the file. */
  kinds: Set<Kind>;
  /** These, and the kinds that bounds of rules and a setting name. */
  read: Set<Kind>;
  /** Digest of the texts of the file and its code, without values of variables. */
  digest: string;
};

const CODE_LENGTH_MAX = 50_000;

/** The nodes of a map, by their names. */
const childOf = (node: unknown, name: string | number): { key: Node; value: Node } | undefined => {
  if (isSeq(node)) {
    const item = node.items[name as number] as Node | undefined;
    return item && { key: item, value: item };
  }
  if (!isMap(node)) return undefined;
  const pair = node.items.find(({ key }) => (key as { value?: unknown }).value === name);
  return pair && { key: pair.key as Node, value: pair.value as Node };
};

const toEntries = (yaml: YamlFile, value: Record<string, Value>): Entry[] => {
  const make = (kind: Kind, attributes: Attributes, node: Node | undefined): Entry => ({
    kind,
    name: String(attributes['name'] ?? ''),
    attributes,
    placeOf: (...path) => {
      let [place, inner]: [Node | undefined, Node | undefined] = [node, node];
      for (const name of path) {
        const child = childOf(inner, name);
        if (!child) break;
        [place, inner] = [child.key, child.value];
      }
      return yaml.placeOf(place);
    },
  });
  const { tenant } = value;
  return [
    ...KINDS.flatMap((kind) => {
      const section = SECTIONS[kind];
      const list = childOf(yaml.root, section)?.value;
      return ((value[section] ?? []) as Attributes[]).map((each, at) => make(kind, each, childOf(list, at)?.value));
    }),
    ...(tenant === undefined ? [] : [make('tenant', tenant as Attributes, childOf(yaml.root, 'tenant')?.value)]),
  ];
};

type Found = { faults: Fault[]; texts: string[] };

const readCode = async (
  io: Io,
  base: string,
  file: string,
  found: Found,
  place: Omit<Fault, 'text'>,
): Promise<string> => {
  const target = resolve(base, file);
  // A file of others must not send files of this machine to a vault.
  if (isAbsolute(file) || !isBelow(base, target)) {
    found.faults.push({ ...place, text: 'code_file must be below the folder of the file.' });
    return '';
  }
  try {
    const code = await readText(io, target);
    found.texts.push(code);
    const wrong =
      code === ''
        ? 'is empty'
        : code.length > CODE_LENGTH_MAX
          ? `is longer than ${CODE_LENGTH_MAX} characters`
          : undefined;
    if (wrong !== undefined) found.faults.push({ ...place, text: `The code in ${file} ${wrong}.` });
    return code;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    found.faults.push({ ...place, text: error.message });
    return '';
  }
};

/** Whether a file is in a folder, also where links lead. */
const isBelow = (folder: string, file: string): boolean => {
  const real = (path: string): string => (existsSync(path) ? realpathSync(path) : path);
  return [relative(folder, file), relative(real(folder), real(file))].every(
    (path) => !isAbsolute(path) && !/^\.\.(?:[/\\]|$)/.test(path),
  );
};

/** Puts the text of `code_file` in the place of `code`. */
const withCode = async (
  io: Io,
  base: string,
  entry: Entry,
  attribute: string | undefined,
  found: Found,
): Promise<void> => {
  const owner = (attribute === undefined ? entry.attributes : entry.attributes[attribute]) as
    | Attributes
    | null
    | undefined;
  if (!owner || owner['code_file'] === undefined) return;
  const { code_file: file, ...rest } = owner;
  const place = entry.placeOf(attribute ?? 'code_file');
  if (rest['code'] !== undefined) found.faults.push({ ...place, text: 'There may be code or code_file, not both.' });
  const made = { ...rest, code: await readCode(io, base, String(file), found, place) };
  if (attribute === undefined) entry.attributes = made;
  else entry.attributes = { ...entry.attributes, [attribute]: made };
};

/** Takes values of the configuration from the environment. */
const withEnvironment = (io: Io, entry: Entry, found: Found): void => {
  const { configuration } = entry.attributes;
  if (entry.kind === 'formula' || typeof configuration !== 'object' || configuration === null) return;
  const values = Object.entries(configuration as Attributes).map(([name, value]): [string, Value] => {
    const variable = typeof value === 'object' && value !== null ? String((value as Attributes)['$env']) : undefined;
    if (variable === undefined) return [name, value];
    const text = io.env[variable];
    if (text !== undefined && text !== '') return [name, text];
    found.faults.push({
      ...entry.placeOf('configuration', name),
      text: `configuration.${name} needs the variable ${variable}, which is not set.`,
    });
    return [name, ''];
  });
  entry.attributes = { ...entry.attributes, configuration: Object.fromEntries(values) };
};

/** A setting may have any name. One that is nearly that of the vault was meant as that. */
const settingFaults = (settings: Attributes): [path: string[], text: string][] =>
  Object.keys(settings).flatMap((name): [string[], string][] => {
    const nearest = settingNames.includes(name) ? undefined : nearestName(name, settingNames);
    const isMeant = nearest !== undefined && Math.abs(nearest.length - name.length) <= SETTING_DIFFERENCE_MAX;
    return isMeant
      ? [[['settings', name], `settings.${name} is no setting of the vault; did you mean ${nearest}?`]]
      : [];
  });

/** Letters that a typing error adds or leaves out. */
const SETTING_DIFFERENCE_MAX = 2;

/** What a shape cannot say. */
const ruleFaults = ({ kind, attributes }: Entry): [path: string[], text: string][] => {
  if (kind === 'tenant') return settingFaults((attributes['settings'] ?? {}) as Attributes);
  if (kind === 'reactor' && attributes['formula'] !== undefined && attributes['code'] !== undefined)
    return [[['formula'], 'A reactor has either formula, or code or code_file.']];
  if (kind !== 'application') return [];
  const rules = (attributes['rules'] ?? []) as Attributes[];
  return rules.some(({ container, conditions }) => {
    const hasConditions = Array.isArray(conditions) && conditions.length > 0;
    return hasConditions === (typeof container === 'string');
  })
    ? [[['rules'], 'Each rule has either container or conditions.']]
    : [];
};

const duplicateFaults = (entries: readonly Entry[]): Fault[] => {
  const seen = new Set<string>();
  return entries.flatMap((entry) => {
    const key = JSON.stringify([entry.kind, entry.name]);
    if (!seen.has(key)) {
      seen.add(key);
      return [];
    }
    return [{ ...entry.placeOf('name'), text: `A second ${entry.kind} has the name ${JSON.stringify(entry.name)}.` }];
  });
};

/** @throws CliError with a line for each fault. Nothing is asked of the vault. */
export const readVaultFile = async (io: Io, path: string): Promise<VaultFile> => {
  const text = (await readText(io, path)).replace(/^\ufeff/, '');
  const yaml = readYaml(text, path);
  const { value, faults } = checkNode(yaml, fileShape);
  if (faults.length > 0) throw faultsError(path, faults);
  const entries = toEntries(yaml, value as Record<string, Value>);
  const found: Found = { faults: duplicateFaults(entries), texts: [text] };
  const base = path === '-' ? io.directory : dirname(resolve(io.directory, path));
  for (const entry of entries) {
    await withCode(io, base, entry, undefined, found);
    for (const transform of ['request_transform', 'response_transform'])
      await withCode(io, base, entry, transform, found);
    withEnvironment(io, entry, found);
    for (const [place, sentence] of ruleFaults(entry))
      found.faults.push({ ...entry.placeOf(...place), text: sentence });
  }
  if (found.faults.length > 0) throw faultsError(path, found.faults);
  const named = Object.keys(value as object);
  const kinds = [
    ...KINDS.filter((kind) => named.includes(SECTIONS[kind])),
    ...(named.includes('tenant') ? (['tenant'] as const) : []),
  ];
  const bound = entries.flatMap(({ kind, attributes }) =>
    kind === 'application' ? boundNamesOf(attributes) : kind === 'tenant' ? delegatedNamesOf(attributes) : [],
  );
  return {
    path,
    entries,
    kinds: new Set<Kind>(kinds),
    read: new Set<Kind>([...kinds, ...bound.map(({ kind }) => kind)]),
    digest: createHash('sha256').update(JSON.stringify(found.texts)).digest('hex'),
  };
};

/** File, line and column. */
export const placeIn = (file: VaultFile, entry: Entry, ...path: (string | number)[]): string => {
  const { line, column } = entry.placeOf(...path);
  return `${file.path}:${line}:${column}`;
};

export const fileError = (file: VaultFile, entry: Entry, path: (string | number)[], text: string): CliError =>
  new CliError(`${placeIn(file, entry, ...path)}: ${text}`, EXIT.file);
