// The page that changes a token's container, end and metadata by form. The value is not on it.
import { html } from '../../platform/http/html.ts';
import { METADATA_KEYS_MAX } from '../tokens/token-request.ts';
import {
  fieldOfPair,
  type FieldProblems,
  type Pair,
  pairsFields,
  type PairsOf,
  pairsOf,
  problemsOfPairs,
  readPairs,
  recordOfPairs,
  textInput,
} from './forms.ts';
import { editPages, type Frame, type Kind, problemsByField } from './resource-pages.ts';
import { consolePage } from './shell.ts';
import { headingOf, segmentOf, type ShownToken, tokenPath } from './token-parts.ts';
import type { Console, Submission, Visit } from './visit.ts';

type TextField = 'container' | 'expires_at';

type TokenForm = { token: ShownToken; typed: Record<TextField, string>; pairs: Pair[]; problems: FieldProblems };

const METADATA: PairsOf = { what: 'metadata', max: METADATA_KEYS_MAX };

const KIND: Kind = {
  path: '/console/tokens',
  url: '/tokens',
  section: 'Tokens',
  noun: 'token',
  idIn: ({ param }) => segmentOf(param('id')),
};

const formOf = (token: ShownToken): TokenForm => ({
  token,
  typed: { container: token.containers[0] ?? '', expires_at: token.expires_at ?? '' },
  pairs: pairsOf(token.metadata ?? {}),
  problems: new Map(),
});

const readForm = ({ field }: Submission, token: ShownToken): TokenForm => ({
  token,
  typed: { container: field('container').trim(), expires_at: field('expires_at').trim() },
  pairs: readPairs(field, METADATA),
  problems: new Map(),
});

/** A merge patch: null removes. What was not changed is not in it. */
const patchOf = ({ token, typed, pairs }: TokenForm): Record<string, unknown> => {
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

const fieldOfPlace = ({ pairs }: TokenForm, place: string): string => {
  if (place.startsWith('containers')) return 'container';
  return place === 'expires_at' ? place : (fieldOfPair(pairs, METADATA, place.replace(/^metadata\./, '')) ?? '');
};

const editPage = ({ session }: Visit, form: TokenForm, { hidden, above }: Frame): string => {
  const { token } = form;
  const path = tokenPath(token.id);
  return consolePage(session, {
    title: `Change token ${token.id}`,
    section: 'Tokens',
    main: html`<p class="quiet"><a href="${path}"><bdi>${headingOf(token)}</bdi></a></p>
<h1>Change the token</h1>${above}
<form method="post" action="${path}/edit" autocomplete="off" novalidate>${hidden}
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

export const tokenEditPages = (console: Console): void =>
  editPages<ShownToken, TokenForm>(console, KIND, {
    permission: 'token:update',
    keeps: [],
    method: 'PATCH',
    open: (token) => formOf(token as ShownToken),
    read: (submission, token) => readForm(submission, token as ShownToken),
    show: editPage,
    toBody: (form) => {
      const problems = problemsOfPairs(form.pairs, METADATA);
      if (problems.size > 0) return { problems };
      const patch = patchOf(form);
      return { json: Object.keys(patch).length === 0 ? undefined : patch };
    },
    toProblems: (form, answer) => problemsByField(answer, (place) => fieldOfPlace(form, place)),
  });
