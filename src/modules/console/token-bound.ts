// Shows where a token's value may go, on its page: the bound in words, and a form that changes it.
import { html, type Html } from '../../platform/http/html.ts';
import { describeBound } from '../access/bound-words.ts';
import { mayReveal } from '../people/roles.ts';
import { boundInputs, boundOf, fieldOfBound, readBound, type TypedBound, typedBoundOf } from './bound-fields.ts';
import { type FieldProblems, linesAbove } from './form-fields.ts';
import { confirmed, problemsByPlace, problemsNotice } from './forms.ts';
import { csrfField, may } from './shell.ts';
import { type ShownToken, tokenPath, tokenUrl } from './token-parts.ts';
import { type ApiAnswer, isSuccess, type Submission, type Visit } from './visit.ts';

export type BoundForm = { typed: TypedBound; problems: FieldProblems; lines: readonly string[]; status: number };

const CHANGES = 'token:update';

/** @param refused the form as it was typed, where the API refused it. */
export const boundCard = (visit: Visit, token: ShownToken, refused: BoundForm | undefined): Html | undefined => {
  const { session } = visit;
  const { id, bound_to, uses, spent } = token;
  const mayChange = may(session, CHANGES);
  if (bound_to === undefined && !mayChange) return undefined;
  const words = describeBound(bound_to);
  const { typed, problems } = refused ?? { typed: typedBoundOf(bound_to), problems: new Map() };
  const action = `${tokenPath(id)}/bound`;
  const change = html`<details${refused && html` open`}><summary>${bound_to ? 'Change the bound' : 'Bind the value'}</summary>
<form method="post" action="${action}">${csrfField(session)}
${refused && problemsNotice('The bound was not changed.', refused.lines)}
${boundInputs(typed, problems)}
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
  const typed = readBound(submission.field);
  const answer = await patchBound(submission, id, boundOf(typed) ?? {});
  if (isSuccess(answer)) return undefined;
  const problems = new Map<string, string[]>();
  for (const [place, sentences] of problemsByPlace(answer)) {
    const field = fieldOfBound(place.replace(/^bound_to/, ''));
    problems.set(field, [...(problems.get(field) ?? []), ...sentences]);
  }
  return { typed, problems, lines: linesAbove(problems, answer), status: answer.status };
};

export const removeBound = (submission: Submission, id: string): Promise<ApiAnswer> => patchBound(submission, id, null);
