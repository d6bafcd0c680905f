// The state of a reactor's page: the stored reactor, and the typed text of its fields.
import type { Html, HtmlValue } from '../../platform/http/html.ts';

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
  /** Code of a reactor that was created with it. */
  code?: string;
  configuration: Record<string, string | number | boolean>;
  application?: { id: string; name: string };
  echo_guard?: string;
  created_at: string;
  modified_at?: string;
};

/** The stored reactor, and what was typed into the fields. */
export type Editor = {
  reactor: Reactor;
  name: string;
  /** Empty: as the tenant says. */
  echo_guard: string;
  code: string;
  /** Texts by element of the formula's contract. */
  configuration: Map<string, string>;
  /** Address at which the member gives the second factor before the configuration is shown; undefined if it is shown. */
  stepUp?: string | undefined;
  args: string;
  /** Why the code is deployed, for the list of its versions. */
  note: string;
  /** The version that the page began with, so that changes of others are not overwritten. */
  seen: string;
  /** Error sentences by field: `name`, `code`, `args`, `configuration.NAME`. */
  problems: Map<string, string[]>;
  codeLine?: number | undefined;
  argsLine?: number | undefined;
  above?: HtmlValue;
  /** Tokens for the arguments, after a search. */
  picked?: Html;
};

const emptyValue = { string: '', number: 0, boolean: false } as const;

/** Sample args with the parameters of a formula. */
export const sampleArgs = ({ request_parameters }: Pick<Formula, 'request_parameters'>): string => {
  const needed = request_parameters.filter(({ optional }) => !optional);
  const args: Record<string, unknown> = {};
  for (const { name, type } of needed.length > 0 ? needed : request_parameters) {
    const steps = name.split('.');
    const last = steps.pop() as string;
    let place = args;
    for (const step of steps) {
      // Only own properties: a name such as `toString` must not reach Object.prototype.
      if (!Object.hasOwn(place, step)) place[step] = {};
      place = place[step] as Record<string, unknown>;
    }
    place[last] = emptyValue[type];
  }
  return JSON.stringify(args, null, 2);
};

const textOf = (value: string | number | boolean | undefined): string => (value === undefined ? '' : String(value));

/** The version of a reactor and its formula: their times of change. */
const seenOf = ({ formula, ...reactor }: Reactor): string =>
  [formula, reactor].map(({ modified_at, created_at }) => modified_at ?? created_at).join(' ');

export const openEditor = (reactor: Reactor): Editor => ({
  reactor,
  name: reactor.name,
  echo_guard: reactor.echo_guard ?? '',
  code: reactor.formula.code,
  configuration: new Map(
    reactor.formula.configuration.map(({ name }) => [
      name,
      textOf(Object.hasOwn(reactor.configuration, name) ? reactor.configuration[name] : undefined),
    ]),
  ),
  args: sampleArgs(reactor.formula),
  note: '',
  seen: seenOf(reactor),
  problems: new Map(),
});

/** A field of pages that show no configuration: it stays as it is. */
export const HIDDEN_CONFIGURATION = 'hidden_configuration';

const readConfiguration = (reactor: Reactor, field: (name: string) => string): Editor['configuration'] =>
  field(HIDDEN_CONFIGURATION) === ''
    ? new Map(reactor.formula.configuration.map(({ name }) => [name, field(`configuration.${name}`)]))
    : openEditor(reactor).configuration;

/** @param field reads a typed field by its name. */
export const readEditor = (reactor: Reactor, field: (name: string) => string): Editor => ({
  reactor,
  name: field('name').trim(),
  echo_guard: field('echo_guard'),
  code: field('code'),
  configuration: readConfiguration(reactor, field),
  args: field('args'),
  note: field('note').trim(),
  seen: field('seen'),
  problems: new Map(),
});

/** Replaces the stored reactor; what was typed stays. */
export const withReactor = (editor: Editor, reactor: Reactor): Editor => ({
  ...editor,
  reactor,
  seen: seenOf(reactor),
});

export const isCodeChanged = ({ reactor, code }: Editor): boolean => code !== linesIn(reactor.formula.code);

/** Converts line ends of stored code to those that a textarea returns. */
const linesIn = (text: string): string => text.replace(/\r\n?/g, '\n');

/** Converts text to its declared type. Invalid text is sent as it is, so that the API reports the error. */
const parseElement = (type: Element['type'], text: string): string | number | boolean => {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  const number = Number(text);
  if (type === 'number' && text.trim() !== '' && Number.isFinite(number)) return number;
  return text;
};

export const configurationOf = ({
  reactor,
  configuration,
}: Pick<Editor, 'configuration'> & {
  reactor: { formula: Pick<Formula, 'configuration'> };
}): Reactor['configuration'] =>
  Object.fromEntries(
    reactor.formula.configuration.map(({ name, type }) => [name, parseElement(type, configuration.get(name) ?? '')]),
  );

/** What the button saves: name, configuration and echo guard. */
export const isSettingChanged = (editor: Editor): boolean =>
  isConfigurationChanged(editor) || editor.echo_guard !== openEditor(editor.reactor).echo_guard;

/** Compares with what the page showed: an empty field for a new element of the contract is no change. */
export const isConfigurationChanged = ({ reactor, name, configuration }: Editor): boolean => {
  const shown = openEditor(reactor);
  return name !== shown.name || [...configuration].some(([each, text]) => text !== shown.configuration.get(each));
};
