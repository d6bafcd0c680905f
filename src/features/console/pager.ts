// Going through a list by its pages. Knows no list.
import { html, type Html } from '../../http/html.ts';
import { addressOf } from './shell.ts';

export type Pagination = {
  total_items?: number;
  page_number?: number;
  total_pages?: number;
  total_is_capped?: true;
};

/** A page's number in the query; whatever is none is the first. */
export const pageNumber = (text: string): string => (/^[1-9]\d{0,8}$/.test(text) ? text : '1');

/**
 * Nothing where there is one page alone.
 * @param parameters of the page's address; `name` among them is the number's.
 */
export const pagerOf = (
  { page_number = 1, total_pages = 1, total_items = 0, total_is_capped }: Pagination,
  to: { path: string; parameters: Record<string, string | undefined>; name?: string; label: string },
): Html | undefined => {
  if (total_pages < 2 && page_number < 2) return undefined;
  const { path, parameters, name = 'page', label } = to;
  const link = (number: number, text: string, isThere: boolean): Html =>
    isThere
      ? html`<a class="button second small" href="${addressOf(path, { ...parameters, [name]: number === 1 ? undefined : String(number) })}">${text}</a>`
      : html`<span></span>`;
  return html`<nav class="pager" aria-label="${label}">
${link(Math.min(page_number - 1, Math.max(total_pages, 1)), 'Previous', page_number > 1)}
<span class="quiet">Page ${page_number} of ${total_pages}, ${total_items}${total_is_capped && '+'} in all</span>
${link(page_number + 1, 'Next', page_number < total_pages)}
</nav>`;
};
