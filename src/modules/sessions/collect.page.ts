// The page that collects data without a script: the form, and a page for addresses that do not work.
import { html, type Html } from '../../platform/http/html.ts';
import { pageOf } from '../../platform/http/pages.ts';
import { type Field, fieldsOf } from './collect-form.ts';
import type { PageSession } from './rows.ts';

const inputOf = ({ name, label, hint, autocomplete, inputmode }: Field, problem: string | undefined): Html => {
  const described =
    problem === undefined ? undefined : html` aria-invalid="true" aria-describedby="${name}-problem" autofocus`;
  const shown = problem === undefined ? undefined : html`<span class="problem" id="${name}-problem">${problem}</span>`;
  return html`<label>${label}${hint !== undefined && html`<small>${hint}</small>`}<input name="${name}" required autocomplete="${autocomplete}" inputmode="${inputmode}" maxlength="1000"${described}>${shown}</label>`;
};

/**
 * @param lastFour of the card whose security code is asked for, where the merchant may see them.
 * The form posts to the URL of the page itself, so that the page does not contain the secret. What was typed is not sent back:
 * a page with a card number would stay in the browser's cache and history.
 */
export const collectPage = (
  { types, tenant_name, token_id }: PageSession,
  problems: Record<string, string>,
  lastFour?: string,
): string => {
  const ofCard = lastFour === undefined ? 'your card' : `your card that ends with ${lastFour}`;
  const asked =
    token_id === null
      ? html`<p>${tenant_name} asks for these. They are stored encrypted, and ${tenant_name} gets a token in their place.</p>`
      : html`<p>${tenant_name} asks for the security code of ${ofCard}. It is stored encrypted, and only for a short time.</p>`;
  const heading = token_id === null ? (types[0] === 'card' ? 'Card details' : 'Details') : 'Security code';
  return pageOf({
    title: 'Payment details',
    width: 'narrow',
    hasNoScript: true,
    main: html`<h1>${heading}</h1>
${asked}
${Object.keys(problems).length > 0 && html`<div class="notice bad" role="alert">Something is not right. Type it again.</div>`}
<form method="post" class="card">
${fieldsOf(types[0] ?? '').map((field) => inputOf(field, problems[field.name]))}
<button>Continue</button>
</form>`,
  });
};

/** The same for every address that does not work. */
export const deadCollectPage = (trace_id: string): string =>
  pageOf({
    title: 'Page no longer valid',
    width: 'narrow',
    hasNoScript: true,
    main: html`<h1>This page is no longer valid</h1>
<p>It was used, or its time is over. Go back to the shop and try again.</p>
<p class="quiet">Trace <code>${trace_id}</code></p>`,
  });
