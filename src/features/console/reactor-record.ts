// A reactor on its page: what is stored of it, and what was typed, which is kept whatever becomes of it. Pure.
import type { HtmlValue } from '../../http/html.ts';

type Element = { name: string; type: 'string' | 'number' | 'boolean'; description?: string };

export type Formula = {
  id: string;
  name: string;
  description?: string;
  type: string;
  icon?: string;
  code: string;
  configuration: Element[];
  request_parameters: (Element & { optional: boolean })[];
  created_at: string;
  modified_at?: string;
};

export type Reactor = {
  id: string;
  name: string;
  formula: Formula;
  configuration: Record<string, string | number | boolean>;
  application?: { id: string; name: string };
  created_at: string;
  modified_at?: string;
};

/** What the page shows: the stored reactor, and in the fields what was typed. */
export type Editor = {
  reactor: Reactor;
  name: string;
  code: string;
  /** Of each element of the formula's contract, as text. */
  configuration: Map<string, string>;
  args: string;
  /** Which code the page began with: another's change in between is not written over unseen. */
  seen: string;
  /** Sentences by field: `name`, `code`, `args`, `configuration.NAME`. */
  problems: Map<string, string[]>;
  codeLine?: number | undefined;
  argsLine?: number | undefined;
  above?: HtmlValue;
};

const emptyValue = { string: '', number: 0, boolean: false } as const;

/** Args of the form that a formula asks for, to be filled in. */
export const sampleArgs = ({ request_parameters }: Pick<Formula, 'request_parameters'>): string => {
  const needed = request_parameters.filter(({ optional }) => !optional);
  const args: Record<string, unknown> = {};
  for (const { name, type } of needed.length > 0 ? needed : request_parameters) {
    const steps = name.split('.');
    const last = steps.pop() as string;
    let place = args;
    for (const step of steps) {
      // A name such as `toString` leads to what all objects of this process share, unless it is the args' own.
      if (!Object.hasOwn(place, step)) place[step] = {};
      place = place[step] as Record<string, unknown>;
    }
    place[last] = emptyValue[type];
  }
  return JSON.stringify(args, null, 2);
};

const textOf = (value: string | number | boolean | undefined): string => (value === undefined ? '' : String(value));

/** When the reactor and its formula were last changed: what a page was made of. */
const seenOf = ({ formula, ...reactor }: Reactor): string =>
  [formula, reactor].map(({ modified_at, created_at }) => modified_at ?? created_at).join(' ');

export const openEditor = (reactor: Reactor): Editor => ({
  reactor,
  name: reactor.name,
  code: reactor.formula.code,
  configuration: new Map(
    reactor.formula.configuration.map(({ name }) => [
      name,
      textOf(Object.hasOwn(reactor.configuration, name) ? reactor.configuration[name] : undefined),
    ]),
  ),
  args: sampleArgs(reactor.formula),
  seen: seenOf(reactor),
  problems: new Map(),
});

/** @param field what was typed under a name. */
export const readEditor = (reactor: Reactor, field: (name: string) => string): Editor => ({
  reactor,
  name: field('name').trim(),
  code: field('code'),
  configuration: new Map(reactor.formula.configuration.map(({ name }) => [name, field(`configuration.${name}`)])),
  args: field('args'),
  seen: field('seen'),
  problems: new Map(),
});

/** The reactor as it is now; what was typed stays. */
export const withReactor = (editor: Editor, reactor: Reactor): Editor => ({
  ...editor,
  reactor,
  seen: seenOf(reactor),
});

export const isCodeChanged = ({ reactor, code }: Editor): boolean => code !== linesIn(reactor.formula.code);

/** Code written by a program may have line ends that no textarea keeps. */
const linesIn = (text: string): string => text.replace(/\r\n?/g, '\n');

/** A value as its declared type has it; what does not fit goes to the API as it is, which says why. */
const parseElement = (type: Element['type'], text: string): string | number | boolean => {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  const number = Number(text);
  if (type === 'number' && text.trim() !== '' && Number.isFinite(number)) return number;
  return text;
};

export const configurationOf = ({ reactor, configuration }: Editor): Record<string, string | number | boolean> =>
  Object.fromEntries(
    reactor.formula.configuration.map(({ name, type }) => [name, parseElement(type, configuration.get(name) ?? '')]),
  );

/** Against what the page showed: where a contract has grown, an empty field is no value that somebody chose. */
export const isConfigurationChanged = ({ reactor, name, configuration }: Editor): boolean => {
  const shown = openEditor(reactor);
  return name !== shown.name || [...configuration].some(([each, text]) => text !== shown.configuration.get(each));
};
