// Parts of console list pages by number: reading a page, a search by name, and the pager.
import { html, type Html } from '../../platform/http/html.ts';
import { addressOf } from './shell.ts';
import { bodyOf, type Visit } from './visit.ts';

type Pagination = {
  total_items?: number;
  page_number?: number;
  total_pages?: number;
  total_is_capped?: true;
};

export type NumberedPage<Row> = { data: Row[]; pagination: Pagination };

/** The page number of a query; 1 for anything else. */
export const pageNumber = (text: string): string => (/^[1-9]\d{0,8}$/.test(text) ? text : '1');

/** Reads the page of a list that the query selects by name and number. @param url of the list in the API. */
export const readNamedPage = async <Row>(visit: Visit, url: string): Promise<NumberedPage<Row> & { name: string }> => {
  const name = visit.query('name');
  const page = pageNumber(visit.query('page'));
  const answer = await visit.api({ method: 'GET', url: addressOf(url, { name, page }) });
  return { name, ...bodyOf<NumberedPage<Row>>(answer) };
};

/** The form that searches a list by name. */
export const nameSearch = (path: string, name: string, placeholder: string): Html =>
  html`<form method="get" action="${path}" class="filters">
<label>Name<input type="search" name="name" value="${name}" maxlength="400" placeholder="${placeholder}"></label>
<div class="actions"><button class="second">Find</button>${name !== '' && html`<a href="${path}">All</a>`}</div>
</form>`;

/**
 * Undefined for a list of one page.
 * @param parameters of the page's URL, with the number under `name`.
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
