// Forms that a script completes with a passkey. Without the script they say so, and other ways stay open.
import { html, type Html, type HtmlValue } from '../../platform/http/html.ts';
import type { Session } from '../people/sessions.ts';
import { csrfField } from './shell.ts';

/**
 * @param form.options for the browser, as JSON.
 * @param form.fields more of the form.
 */
export const passkeyForm = (
  session: Session,
  form: {
    kind: 'create' | 'use';
    action: string;
    options: string;
    heading: string;
    text: HtmlValue;
    button: string;
    fields?: Html;
  },
): Html => html`<form method="post" action="${form.action}" class="card" data-passkey="${form.kind}" data-options="${form.options}">
<h2>${form.heading}</h2>${csrfField(session)}${form.fields}<input type="hidden" name="answer">
<p>${form.text}</p>
<p class="problem" role="alert" data-problem></p>
<p class="quiet" data-off>Passkeys need JavaScript, and a browser that has them. This one does not offer them here.</p>
<button hidden data-on>${form.button}</button>
</form>`;

/** Why an answer was refused, as a sentence. */
export const passkeyRefusals = {
  late: 'The page was open for more than five minutes, or was used before. Try again.',
  refused: 'This passkey was refused. Try again, or use another way.',
  cloned:
    'This passkey was refused: a copy of it was used meanwhile. Use another way to sign in, then remove this passkey.',
} as const;
