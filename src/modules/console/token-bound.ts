// Where a token's value may go, on its page: the bound in words, and a form that changes it.
import { html, type Html } from '../../platform/http/html.ts';
import { describeBound } from '../access/bound-words.ts';
import { type BoundPlace, boundPlaces } from '../access/bounds.ts';
import {
  checkField,
  type Fields,
  linesAbove,
  listOfLines,
  numberInput,
  numberOf,
  textArea,
  textInput,
} from './form-fields.ts';
import { confirmed, problemsByPlace, problemsNotice } from './forms.ts';
import { csrfField, may } from './shell.ts';
import { type ShownToken, tokenPath, tokenUrl } from './token-parts.ts';
import { type ApiAnswer, isSuccess, type Submission, type Visit } from './visit.ts';
import { mayReveal } from '../people/roles.ts';

const listNames = ['hosts', 'proxies', 'reactors'] as const;
const allowanceNames = ['max_amount', 'currency', 'max_total', 'merchant_id', 'checkout_session_id'] as const;
type FieldName =
  | (typeof listNames)[number]
  | BoundPlace
  | 'max_uses'
  | 'until'
  | `allowance_${(typeof allowanceNames)[number]}`;
export type BoundForm = Fields<FieldName> & { lines: readonly string[]; status: number };

const CHANGES = 'token:update';

const placeLabels: Record<BoundPlace, string> = {
  body: 'in the body',
  header: 'in a header',
  path: 'in the path',
  query: 'in the query',
};

const typedOf = ({ bound_to = {} }: ShownToken): Record<FieldName, string> => {
  const { places, max_uses, until = '', allowance } = bound_to;
  const lists = listNames.map((name) => [name, bound_to[name]?.join('\n') ?? '']);
  const ticked = boundPlaces.map((place) => [place, places?.includes(place) === true ? 'yes' : '']);
  const allowed = allowanceNames.map((name) => [`allowance_${name}`, String(allowance?.[name] ?? '')]);
  const named = Object.fromEntries([...lists, ...ticked, ...allowed]);
  return { ...named, max_uses: max_uses?.toString() ?? '', until } as Record<FieldName, string>;
};

const formOf = (form: Fields<FieldName>): Html => html`
${textArea(form, { name: 'hosts', label: 'Hosts', hint: 'That get the value. One on each line, such as api.example.com or *.example.com.' })}
${textArea(form, { name: 'proxies', label: 'Proxies', hint: 'Ids of stored proxies that send it, one on each line. Each is pinned as it is now.' })}
${textArea(form, { name: 'reactors', label: 'Reactors', hint: 'Ids of reactors whose code gets it, one on each line. Each is pinned as it is now.' })}
<fieldset><legend>Where it may stand in a request</legend>${boundPlaces.map((name) => checkField(form, { name, label: placeLabels[name] }))}<small>None ticked: anywhere.</small></fieldset>
${numberInput(form, { name: 'max_uses', label: 'Uses', hint: 'How many requests and runs, from 1 to 1,000. Empty: any number.' })}
${textInput(form, { name: 'until', label: 'Until', hint: 'When uses end, such as 2030-09-27T19:23:57Z. Empty: never.' })}
<fieldset><legend>What a request may charge</legend><small>Through proxies that say where a request has its amount. Empty: not limited.</small>
${numberInput(form, { name: 'allowance_max_amount', label: 'Amount of a request', hint: 'In minor units, such as cents' })}
${textInput(form, { name: 'allowance_currency', label: 'Currency', hint: 'Three letters, such as usd' })}
${numberInput(form, { name: 'allowance_max_total', label: 'Amount of all requests', hint: 'In minor units' })}
${textInput(form, { name: 'allowance_merchant_id', label: 'Merchant', hint: 'Compared where the proxy says where a request has it' })}
${textInput(form, { name: 'allowance_checkout_session_id', label: 'Checkout', hint: 'Kept, and not compared' })}
</fieldset>`;

/** Undefined where nothing was typed. */
const allowanceOf = (typed: Record<string, string>): object | undefined => {
  const given = allowanceNames.flatMap((name): [string, unknown][] => {
    const text = typed[`allowance_${name}`]?.trim() ?? '';
    return text === '' ? [] : [[name, name.startsWith('max_') ? numberOf(text) : text]];
  });
  return given.length === 0 ? undefined : Object.fromEntries(given);
};

/** @param refused the form as it was typed, where the API refused it. */
export const boundCard = (visit: Visit, token: ShownToken, refused: BoundForm | undefined): Html | undefined => {
  const { session } = visit;
  const { id, bound_to, uses, spent } = token;
  const mayChange = may(session, CHANGES);
  if (bound_to === undefined && !mayChange) return undefined;
  const words = describeBound(bound_to);
  const form = refused ?? { typed: typedOf(token), problems: new Map() };
  const action = `${tokenPath(id)}/bound`;
  const change = html`<details${refused && html` open`}><summary>${bound_to ? 'Change the bound' : 'Bind the value'}</summary>
<form method="post" action="${action}">${csrfField(session)}
${refused && problemsNotice('The bound was not changed.', refused.lines)}
${formOf(form)}
<p class="quiet">With a host, a proxy or a reactor, nobody reads the value any more: every page and every key sees the mask.</p>
<button>Save the bound</button></form></details>`;
  const remove = confirmed(session, {
    action: `${action}/remove`,
    summary: 'Remove the bound',
    question: 'The value may then go wherever the permissions of keys let it go.',
    button: 'Remove the bound',
  });
  return html`<section class="card"><h2>Where the value may go</h2>
${bound_to ? html`<ul>${words.map((word) => html`<li><bdi>${word}</bdi></li>`)}</ul>` : html`<p class="quiet">Wherever the permissions of keys let it go.</p>`}
${uses !== undefined && html`<p>${uses} of ${bound_to?.max_uses} uses are counted.</p>`}
${spent !== undefined && html`<p>${spent} of ${bound_to?.allowance?.max_total} ${bound_to?.allowance?.currency} are charged, in minor units.</p>`}
${mayChange && html`${change}${bound_to && remove}`}</section>`;
};

/** Under a rule that reveals, where the role has one: a bound that becomes wider needs it. The answer has the mask at most. */
const patchBound = (submission: Submission, id: string, bound_to: object | null): Promise<ApiAnswer> =>
  submission.api({
    method: 'PATCH',
    url: tokenUrl(id),
    json: { bound_to },
    ...(mayReveal(submission.session.role) && { withAllGrants: true }),
  });

/** @returns the form with its errors; undefined where the bound was changed. */
export const saveBound = async (submission: Submission, id: string): Promise<BoundForm | undefined> => {
  const allowed = allowanceNames.map((name) => `allowance_${name}` as const);
  const names: FieldName[] = [...listNames, ...boundPlaces, 'max_uses', 'until', ...allowed];
  const typed = Object.fromEntries(names.map((name) => [name, submission.field(name).replaceAll('\r\n', '\n')]));
  const places = boundPlaces.filter((place) => typed[place] === 'yes');
  const until = typed['until']?.trim();
  const answer = await patchBound(submission, id, {
    ...Object.fromEntries(listNames.map((name) => [name, listOfLines(typed[name] ?? '')])),
    places: places.length === 0 ? undefined : places,
    max_uses: numberOf(typed['max_uses'] ?? ''),
    until: until === '' ? undefined : until,
    allowance: allowanceOf(typed),
  });
  if (isSuccess(answer)) return undefined;
  const problems = new Map<string, string[]>();
  for (const [path, sentences] of problemsByPlace(answer)) {
    const [, name = '', ofAllowance = 'max_amount'] = /^bound_to\.(\w+)(?:\.(\w+))?/.exec(path) ?? [];
    const field = name === 'allowance' ? `allowance_${ofAllowance}` : name === 'places' ? 'body' : name;
    problems.set(field, [...(problems.get(field) ?? []), ...sentences]);
  }
  return {
    typed: typed as Record<FieldName, string>,
    problems,
    lines: linesAbove(problems, answer),
    status: answer.status,
  };
};

export const removeBound = (submission: Submission, id: string): Promise<ApiAnswer> => patchBound(submission, id, null);
