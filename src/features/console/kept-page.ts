// What was typed into a form that can no longer be taken, because its session has ended or is another one: given back to be
// copied, so that an hour of writing is not lost with it. Shows it to the browser that has just sent it, and keeps nothing.
import { html, type Html } from '../../http/html.ts';
import { brand, fieldOf, pageOf } from '../../http/pages.ts';

const area = (name: string, text: string): Html =>
  html`<label><span class="mono">${name}</span><textarea class="code" rows="12" readonly spellcheck="false">\n${text}</textarea></label>`;

/**
 * @param names of the fields that are given back.
 * @param again where to go on.
 * @returns undefined where nothing was typed into them.
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
