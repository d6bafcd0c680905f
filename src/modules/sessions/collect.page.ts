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
 * The form posts to the URL of the page itself, so that the page does not contain the secret. What was typed is not sent back:
 * a page with a card number would stay in the browser's cache and history.
 */
export const collectPage = ({ types, tenant_name }: PageSession, problems: Record<string, string>): string =>
  pageOf({
    title: 'Payment details',
    width: 'narrow',
    hasNoScript: true,
    main: html`<h1>${types[0] === 'card' ? 'Card details' : 'Details'}</h1>
<p>${tenant_name} asks for these. They are stored encrypted, and ${tenant_name} gets a token in their place.</p>
${Object.keys(problems).length > 0 && html`<div class="notice bad" role="alert">Something is not right. Type it again.</div>`}
<form method="post" class="card">
${fieldsOf(types[0] ?? '').map((field) => inputOf(field, problems[field.name]))}
<button>Continue</button>
</form>`,
  });

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
