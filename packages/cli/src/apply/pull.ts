// Writes a vault as a file that apply reads. It has no keys, and values of configurations only where they are asked for.
import { stringify } from 'yaml';
import { CliError } from '../exit-codes.ts';
import { cleanText } from '../io.ts';
import type { Value } from './check.ts';
import { attributesOf, KINDS, SECTIONS } from './shapes.ts';
import type { Current, State } from './state.ts';

type Attributes = Record<string, Value>;

/** @throws CliError: a file finds records by their names. */
const checkNames = (records: readonly Current[]): void => {
  const seen = new Set<string>();
  for (const { kind, name } of records) {
    const key = `${kind} ${name}`;
    if (seen.has(key))
      throw new CliError(
        `The vault has two of the kind ${kind} with the name ${JSON.stringify(name)}, which no file can tell apart: rename one.`,
      );
    seen.add(key);
  }
};

const isEmpty = (value: Value | undefined): boolean =>
  value === undefined ||
  value === null ||
  (Array.isArray(value) && value.length === 0) ||
  (typeof value === 'object' && Object.keys(value).length === 0);

/** A mask is shown with the code that it stands for. */
const withoutMaskCode = (value: Value): Value => {
  if (typeof value !== 'object' || value === null || (value as Attributes)['type'] !== 'mask') return value;
  const { code: _, ...rest } = value as Attributes;
  return rest;
};

const toFile = ({ kind, attributes }: Current, withConfiguration: boolean): Attributes =>
  Object.fromEntries(
    attributesOf(kind).flatMap((name): [string, Value][] => {
      const value = attributes[name];
      const isSecret = name === 'configuration' && kind !== 'formula' && !withConfiguration;
      return isEmpty(value) || isSecret
        ? []
        : [[name, name.endsWith('_transform') ? withoutMaskCode(value as Value) : (value as Value)]];
    }),
  );

/** What the file does not say of the vault, as comments. */
const notes = (records: readonly Current[], withConfiguration: boolean): string[] =>
  records.flatMap((record) => {
    const { kind, name, attributes, hasCertificate } = record;
    const names = Object.keys((attributes['configuration'] ?? {}) as object);
    const title = `${kind} ${JSON.stringify(name)}`;
    return [
      ...(kind !== 'formula' && names.length > 0 && !withConfiguration
        ? [`# Left out, and kept by apply: the configuration of the ${title} (${names.join(', ')}).`]
        : []),
      ...(hasCertificate ? [`# Left out, and kept by apply: the client certificate of the ${title}.`] : []),
    ].map((line) => cleanText(line));
  });

/** @param begin of its first line. @returns the text of the file. */
export const writeVaultFile = ({ records }: State, withConfiguration: boolean, begin: string): string => {
  const own = records.filter(({ isOfficial }) => !isOfficial);
  checkNames(own);
  const tenant = own.find(({ kind }) => kind === 'tenant');
  const file = {
    version: 1,
    ...(tenant && { tenant: toFile(tenant, true) }),
    ...Object.fromEntries(
      KINDS.map((kind) => [
        SECTIONS[kind],
        own
          .filter((record) => record.kind === kind)
          .toSorted((one, other) => (one.name < other.name ? -1 : 1))
          .map((record) => toFile(record, withConfiguration)),
      ]),
    ),
  };
  const comments = [
    `${begin} strongroom apply FILE --plan shows what a change of it would do.`,
    ...notes(own, withConfiguration),
  ];
  return `${comments.join('\n')}\n${stringify(file, { lineWidth: 0, aliasDuplicateObjects: false, version: '1.2' })}`;
};
