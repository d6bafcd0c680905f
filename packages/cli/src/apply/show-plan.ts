// Writes a plan for people: what widens access first, then what is made, changed and removed. Configuration has names only.
import { cleanText } from '../io.ts';
import type { Value } from './check.ts';
import { canonical } from './compare.ts';
import type { Plan, Step } from './plan.ts';

type Attributes = Record<string, Value>;

const TEXT_LENGTH_MAX = 80;

const clip = (text: string): string =>
  text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX - 3)}...` : text;

const linesIn = (value: Value | undefined): string => {
  const count = String(value).split('\n').length;
  return `${count} ${count === 1 ? 'line' : 'lines'}`;
};

/** Values of a configuration may be secrets: only their names are shown. */
const shown = (attribute: string, value: Value | undefined): string => {
  if (value === null || value === undefined) return 'none';
  if (attribute === 'code') return linesIn(value);
  if (attribute === 'icon') return 'an image';
  if (attribute === 'configuration' && !Array.isArray(value)) return Object.keys(value as object).join(', ') || 'none';
  const code = (value as Attributes)['code'];
  if (attribute.endsWith('_transform')) return code === undefined ? 'a mask' : `code of ${linesIn(code)}`;
  if (Array.isArray(value) && value.every((each) => typeof each !== 'object')) return clip(value.join(', ') || 'none');
  if (Array.isArray(value)) return `${value.length} ${value.length === 1 ? 'element' : 'elements'}`;
  return clip(JSON.stringify(value));
};

const listDifference = (before: Value | undefined, after: Value): string | undefined => {
  const [old, now] = [before ?? [], after ?? []];
  const isFlat = (value: Value): value is string[] =>
    Array.isArray(value) && value.every((each) => typeof each === 'string');
  if (!isFlat(old) || !isFlat(now)) return undefined;
  const added = now.filter((each) => !old.includes(each)).map((each) => `+${each}`);
  const gone = old.filter((each) => !now.includes(each)).map((each) => `-${each}`);
  return clip([...added, ...gone].join(' '));
};

const configurationDifference = (before: Value | undefined, after: Value): string => {
  const [old, now] = [(before ?? {}) as Attributes, (after ?? {}) as Attributes];
  return [
    ...Object.keys(now).flatMap((name) =>
      !(name in old) ? `+${name}` : old[name] === now[name] ? [] : `${name} changed`,
    ),
    ...Object.keys(old).flatMap((name) => (name in now ? [] : `-${name}`)),
  ].join(' ');
};

/** Rules are found again by their priority. */
const rulesDifference = (before: Value | undefined, after: Value): string => {
  const [old, now] = [before, after].map((rules) => canonical('rules', rules) as Attributes[]) as [
    Attributes[],
    Attributes[],
  ];
  const titleOf = ({ priority, description }: Attributes): string =>
    `rule ${Number(priority)}${typeof description === 'string' ? ` ${JSON.stringify(description)}` : ''}`;
  const findRule = (rules: Attributes[], { priority }: Attributes): Attributes | undefined =>
    rules.find((rule) => rule['priority'] === priority);
  const changes = now.flatMap((rule): string[] => {
    const was = findRule(old, rule);
    if (!was) return [`+${titleOf(rule)}`];
    return [...new Set([...Object.keys(was), ...Object.keys(rule)])]
      .filter((name) => JSON.stringify(was[name]) !== JSON.stringify(rule[name]))
      .map((name) => `${titleOf(rule)} ${name} ${shown(name, was[name])} -> ${shown(name, rule[name])}`);
  });
  const gone = old.filter((rule) => !findRule(now, rule)).map((rule) => `-${titleOf(rule)}`);
  return [...changes, ...gone].join('; ') || 'saved again';
};

const difference = (attribute: string, before: Value | undefined, after: Value): string => {
  if (attribute === 'configuration' && !Array.isArray(after))
    return `configuration: ${configurationDifference(before, after)}`;
  if (attribute === 'settings')
    return Object.entries(after as Attributes)
      .map(
        ([name, value]) =>
          `settings.${name}: ${shown(name, (before as Attributes | undefined)?.[name])} -> ${shown(name, value)}`,
      )
      .join('; ');
  if (attribute === 'rules') return `rules: ${rulesDifference(before, after)}`;
  const list = Array.isArray(after) && Array.isArray(before) ? listDifference(before, after) : undefined;
  if (list !== undefined) return `${attribute}: ${list}`;
  const [old, now] = [shown(attribute, before), shown(attribute, after)];
  return old === now ? `${attribute}: changed (${now})` : `${attribute}: ${old} -> ${now}`;
};

/** The attributes of a step, in words. */
export const detailsOf = ({ action, current, changed, notes = [] }: Step): string[] => [
  ...Object.entries(changed)
    .filter(([attribute]) => action !== 'make' || attribute !== 'name')
    .map(([attribute, value]) =>
      action === 'make'
        ? `${attribute}: ${shown(attribute, value)}`
        : difference(attribute, current?.attributes[attribute], value),
    ),
  ...notes,
];

const titleOf = ({ kind, name }: { kind: string; name: string }): string => `${kind} ${JSON.stringify(name)}`;

const HEADINGS = [
  ['make', '+', 'Made'],
  ['change', '~', 'Changed'],
  ['remove', '-', 'Removed'],
] as const;

/** The lines of a plan. An empty plan has one sentence. */
export const planLines = ({ steps, kept }: Plan): string[] => {
  const widened = steps.flatMap((step) => step.widens.map((sentence) => `  ! ${titleOf(step)} ${sentence}`));
  const count = (action: Step['action']): number => steps.filter((step) => step.action === action).length;
  const sections = HEADINGS.flatMap(([action, mark, heading]) => {
    const found = steps.filter((step) => step.action === action);
    return found.length === 0
      ? []
      : [
          `${heading}:`,
          ...found.flatMap((step) => [`  ${mark} ${titleOf(step)}`, ...detailsOf(step).map((each) => `      ${each}`)]),
        ];
  });
  return [
    ...(widened.length > 0 ? ['Widens access:', ...widened] : []),
    ...sections,
    ...(kept.length > 0 ? [`Not in the file, and kept: ${kept.map(titleOf).join(', ')}.`] : []),
    steps.length === 0
      ? 'Nothing to do: the vault is as the file says.'
      : `To make: ${count('make')}. To change: ${count('change')}. To remove: ${count('remove')}.`,
  ].map((line) => cleanText(line));
};

/** The plan as JSON, without values of configurations. */
export const planRecord = ({ steps, kept }: Plan): object => ({
  widens: steps.flatMap(({ kind, name, widens }) => widens.map((text) => ({ kind, name, text }))),
  steps: steps.map((step) => ({ action: step.action, kind: step.kind, name: step.name, details: detailsOf(step) })),
  kept: kept.map(({ kind, name }) => ({ kind, name })),
});
