// The page that changes a token's container, end and metadata by form. The value is not on it.
import { AppError } from '../../platform/base/errors.ts';
import { html, type HtmlValue } from '../../platform/http/html.ts';
import { METADATA_KEYS_MAX } from '../tokens/token-request.ts';
import {
  fieldOfPair,
  type FieldProblems,
  linesAbove,
  LOOK,
  type Pair,
  pairsFields,
  type PairsOf,
  pairsOf,
  problemsByPlace,
  problemsNotice,
  problemsOfPairs,
  readPairs,
  recordOfPairs,
  textInput,
} from './forms.ts';
import { addressOf, consolePage, csrfField, may, notice } from './shell.ts';
import { headingOf, type ShownToken, tokenPath, tokenUrl } from './token-parts.ts';
import { type ApiAnswer, bodyOf, type Console, isSuccess, type Outcome, type Submission, type Visit } from './visit.ts';

type TextField = 'container' | 'expires_at' | 'seen';

type TokenForm = { typed: Record<TextField, string>; pairs: Pair[]; problems: FieldProblems };

const METADATA: PairsOf = { what: 'metadata', max: METADATA_KEYS_MAX };

/** The version of the token, so that changes of others are not overwritten. */
const seenOf = ({ modified_at, created_at = '' }: ShownToken): string => modified_at ?? created_at;

const formOf = (token: ShownToken): TokenForm => ({
  typed: { container: token.containers[0] ?? '', expires_at: token.expires_at ?? '', seen: seenOf(token) },
  pairs: pairsOf(token.metadata ?? {}),
  problems: new Map(),
});

const readForm = (field: (name: string) => string): TokenForm => ({
  typed: { container: field('container').trim(), expires_at: field('expires_at').trim(), seen: field('seen') },
  pairs: readPairs(field, METADATA),
  problems: new Map(),
});

/** A merge patch: null removes. What was not changed is not in it. */
const patchOf = ({ typed, pairs }: TokenForm, token: ShownToken): Record<string, unknown> => {
  const { metadata = {}, containers, expires_at = '' } = token;
  const wanted = recordOfPairs(pairs, metadata);
  const gone = Object.keys(metadata).filter((name) => !Object.hasOwn(wanted, name));
  const changed = Object.entries(wanted).filter(([name, value]) => metadata[name] !== value);
  const changes = Object.fromEntries([...changed, ...gone.map((name) => [name, null] as const)]);
  return {
    ...(typed.container !== containers[0] && { containers: [typed.container] }),
    ...(typed.expires_at !== expires_at && { expires_at: typed.expires_at === '' ? null : typed.expires_at }),
    ...(Object.keys(changes).length > 0 && { metadata: changes }),
  };
};

/** The API's errors by field of the form. */
const problemsOf = ({ pairs }: TokenForm, answer: ApiAnswer): FieldProblems => {
  const problems = new Map<string, string[]>();
  for (const [place, sentences] of problemsByPlace(answer)) {
    const pair = fieldOfPair(pairs, METADATA, place.replace(/^metadata\./, ''));
    const field = place.startsWith('containers') ? 'container' : place === 'expires_at' ? place : (pair ?? '');
    const lines = field === '' ? sentences.map((each) => `${place} ${each}`) : sentences;
    problems.set(field, [...(problems.get(field) ?? []), ...lines]);
  }
  return problems;
};

const editPage = ({ session }: Visit, token: ShownToken, form: TokenForm, above?: HtmlValue): string => {
  const path = tokenPath(token.id);
  return consolePage(session, {
    title: `Change token ${token.id}`,
    section: 'Tokens',
    main: html`<p class="quiet"><a href="${path}"><bdi>${headingOf(token)}</bdi></a></p>
<h1>Change the token</h1>${above}
<form method="post" action="${path}/edit" autocomplete="off" novalidate>${csrfField(session)}<input type="hidden" name="seen" value="${form.typed.seen}">
<section class="card">
${textInput(form, { name: 'container', label: 'Container', hint: html`Which keys and rules reach it, such as <code>/pci/high/</code>` })}
${textInput(form, { name: 'expires_at', label: 'Expires', hint: 'A time in UTC, such as 2027-03-01T00:00:00Z. Empty: never. An expired token is deleted.' })}
</section>
<section class="card"><h2>Metadata</h2>
<p class="hint">Texts that are not secret, by name: anyone who reads the token sees them. A row without name and value is left out; each save gives two more.</p>
${pairsFields(form, form.pairs, METADATA)}</section>
<div class="actions"><button>Save</button><a href="${path}">Cancel</a></div></form>`,
  });
};

const readToken = async (visit: Visit): Promise<ShownToken> =>
  bodyOf<ShownToken>(await visit.api({ method: 'GET', url: tokenUrl(visit.param('id')) }));

const save = async (submission: Submission): Promise<Outcome> => {
  const token = await readToken(submission);
  const form = readForm(submission.field);
  if (form.typed.seen !== seenOf(token)) {
    const sentence =
      'This token was changed since the page was opened. Your changes are below and are not saved. Save again to overwrite the other changes.';
    const current = { ...form, typed: { ...form.typed, seen: seenOf(token) } };
    return { status: 409, page: editPage(submission, token, current, notice('warn', sentence)) };
  }
  const refuse = (status: number, problems: FieldProblems, lines: readonly string[]): Outcome => {
    const above = problemsNotice('The token was not saved.', lines);
    return { status, page: editPage(submission, token, { ...form, problems }, above) };
  };
  const found = problemsOfPairs(form.pairs, METADATA);
  if (found.size > 0) return refuse(422, found, [LOOK]);
  const saved = { seeOther: addressOf(tokenPath(token.id), { done: 'saved' }) };
  const patch = patchOf(form, token);
  if (Object.keys(patch).length === 0) return saved;
  const answer = await submission.api({ method: 'PATCH', url: tokenUrl(token.id), json: patch });
  if (isSuccess(answer)) return saved;
  const problems = problemsOf(form, answer);
  return refuse(answer.status, problems, linesAbove(problems, answer));
};

export const tokenEditPages = (console: Console): void => {
  console.get('/console/tokens/:id/edit', async (visit) => {
    if (!may(visit.session, 'token:update')) throw new AppError('forbidden', 'Your role does not change tokens.');
    const token = await readToken(visit);
    return editPage(visit, token, formOf(token));
  });
  console.postAfterCode('/console/tokens/:id/edit', save);
};
