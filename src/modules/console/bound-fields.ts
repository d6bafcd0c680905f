// The fields of a bound in a form, of a token or of an access rule: where a value may go, how often, and what it may be charged.
import { html, type Html } from '../../platform/http/html.ts';
import { type Bound, type BoundPlace, boundPlaces } from '../access/bounds.ts';
import {
  checkField,
  type FieldProblems,
  linesOf,
  listOfLines,
  numberInput,
  numberOf,
  textArea,
  textInput,
} from './forms.ts';

const listNames = ['hosts', 'proxies', 'reactors'] as const;
const allowanceNames = ['max_amount', 'currency', 'max_total', 'merchant_id', 'checkout_session_id'] as const;

type AllowanceField = `allowance_${(typeof allowanceNames)[number]}`;
type BoundField = (typeof listNames)[number] | BoundPlace | 'max_uses' | 'until' | AllowanceField;

/** A bound as it was typed. */
export type TypedBound = Readonly<Record<BoundField, string>>;

const allowanceField = (name: (typeof allowanceNames)[number]): AllowanceField => `allowance_${name}`;

const fields: readonly BoundField[] = [
  ...listNames,
  ...boundPlaces,
  'max_uses',
  'until',
  ...allowanceNames.map(allowanceField),
];

const placeLabels: Record<BoundPlace, string> = {
  body: 'in the body',
  header: 'in a header',
  path: 'in the path',
  query: 'in the query',
};

const typedOf = (textOf: (name: BoundField) => string): TypedBound =>
  Object.fromEntries(fields.map((name) => [name, textOf(name)])) as TypedBound;

export const typedBoundOf = ({ places, max_uses, until, allowance, ...lists }: Bound = {}): TypedBound => {
  const shown: Partial<Record<BoundField, unknown>> = {
    ...Object.fromEntries(listNames.map((name) => [name, lists[name]?.join('\n')])),
    ...Object.fromEntries((places ?? []).map((place) => [place, 'yes'])),
    ...Object.fromEntries(allowanceNames.map((name) => [allowanceField(name), allowance?.[name]])),
    max_uses,
    until,
  };
  return typedOf((name) => String(shown[name] ?? ''));
};

/** @param prefix of the fields' names. */
export const readBound = (field: (name: string) => string, prefix = ''): TypedBound =>
  typedOf((name) => linesOf(field(`${prefix}${name}`)).trim());

/** Undefined where nothing was typed. */
const objectOf = (attributes: readonly (readonly [name: string, value: unknown])[]): object | undefined => {
  const given = attributes.filter(([, value]) => value !== undefined);
  return given.length === 0 ? undefined : Object.fromEntries(given);
};

/** For the API. Undefined where nothing was typed. */
export const boundOf = (typed: TypedBound): object | undefined => {
  const places = boundPlaces.filter((place) => typed[place] === 'yes');
  const textOf = (name: BoundField): string | undefined => (typed[name] === '' ? undefined : typed[name]);
  return objectOf([
    ...listNames.map((name) => [name, listOfLines(typed[name])] as const),
    ['places', places.length === 0 ? undefined : places],
    ['max_uses', numberOf(typed.max_uses)],
    ['until', textOf('until')],
    [
      'allowance',
      objectOf(
        allowanceNames.map((name) => {
          const field = allowanceField(name);
          return [name, name.startsWith('max_') ? numberOf(typed[field]) : textOf(field)] as const;
        }),
      ),
    ],
  ]);
};

/** The field of a path of the API below `bound_to`. Empty for the bound as a whole. */
export const fieldOfBound = (path: string): string => {
  const [, name = '', ofAllowance = 'max_amount'] = /^\.(\w+)(?:\.(\w+))?/.exec(path) ?? [];
  if (name === 'allowance') return `allowance_${ofAllowance}`;
  return name === 'places' ? boundPlaces[0] : name;
};

/** @param problems by the names of the fields. */
export const boundInputs = (typed: TypedBound, problems: FieldProblems, prefix = ''): Html => {
  const nameOf = (name: BoundField): string => `${prefix}${name}`;
  const form = { typed: Object.fromEntries(fields.map((name) => [nameOf(name), typed[name]])), problems };
  const field = (name: BoundField, label: string, hint: string) => ({ name: nameOf(name), label, hint });
  return html`${textArea(form, field('hosts', 'Hosts', 'That get the value. One on each line, such as api.example.com or *.example.com.'))}
${textArea(form, field('proxies', 'Proxies', 'Ids of stored proxies that send it, one on each line. Each is pinned as it is now.'))}
${textArea(form, field('reactors', 'Reactors', 'Ids of reactors whose code gets it, one on each line. Each is pinned as it is now.'))}
<fieldset><legend>Where it may stand in a request</legend>${boundPlaces.map((name) => checkField(form, { name: nameOf(name), label: placeLabels[name] }))}<small>None ticked: anywhere.</small></fieldset>
${numberInput(form, field('max_uses', 'Uses', 'How many requests and runs, from 1 to 1,000. Empty: any number.'))}
${textInput(form, field('until', 'Until', 'When uses end, such as 2030-09-27T19:23:57Z. Empty: never.'))}
<fieldset><legend>What a request may charge</legend><small>Through proxies that say where a request has its amount. Empty: not limited.</small>
${numberInput(form, field('allowance_max_amount', 'Amount of a request', 'In minor units, such as cents'))}
${textInput(form, field('allowance_currency', 'Currency', 'Three letters, such as usd'))}
${numberInput(form, field('allowance_max_total', 'Amount of all requests', 'In minor units'))}
${textInput(form, field('allowance_merchant_id', 'Merchant', 'Compared where the proxy says where a request has it'))}
${textInput(form, field('allowance_checkout_session_id', 'Checkout', 'Kept, and not compared'))}
</fieldset>`;
};
