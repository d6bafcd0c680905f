// A page with the text of a form that was refused because its session or CSRF token is no longer valid.
// The member can copy the text. Nothing is stored.
import { html, type Html } from '../../platform/http/html.ts';
import { brand, fieldOf, pageOf } from '../../platform/http/pages.ts';

const area = (name: string, text: string): Html =>
  html`<label><span class="mono">${name}</span><textarea class="code" rows="12" readonly spellcheck="false">\n${text}</textarea></label>`;

/**
 * @param names of the fields that are shown.
 * @param again the link to continue with.
 * @returns undefined if these fields were empty.
 */
export const keptPage = (
  form: URLSearchParams,
  names: readonly string[],
  { heading, again }: { heading: string; again: { path: string; label: string } },
): string | undefined => {
  const kept = names.map((name) => [name, fieldOf(form, name)] as const).filter(([, text]) => text !== '');
  if (kept.length === 0) return undefined;
  return pageOf({
    title: heading,
    main: html`${brand}
<h1>${heading}</h1>
<p>Nothing was saved and nothing was run. What you typed is below: copy it before you go on.</p>
${kept.map(([name, text]) => area(name, text))}
<p><a class="button" href="${again.path}">${again.label}</a></p>`,
  });
};
