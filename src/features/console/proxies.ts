// Proxies in the console: found, looked at, tried. A request that is tried goes the way of every other: through the API.
import { html, type Html } from '../../http/html.ts';
import type { ActorNames } from './actor-names.ts';
import { idOf, linesOf } from './forms.ts';
import { foreign } from './list-parts.ts';
import { pageNumber, pagerOf, type Pagination } from './pager.ts';
import { checkRequest } from './proxy-check.ts';
import { authBadge, type Proxy, proxyPage, type Tester } from './proxy-page.ts';
import { newRequest, type ReadRequest, readRequest, type Typed } from './proxy-request.ts';
import { sendRequest } from './proxy-send.ts';
import { addressOf, consolePage, empty, recordsTable } from './shell.ts';
import { bodyOf, type Console, type Deed, type Outcome, type Visit } from './visit.ts';

const PATH = '/console/proxies';

type ListPage = { data: Proxy[]; pagination: Pagination };

const transformsOf = ({ request_transform, response_transform }: Proxy): string =>
  [request_transform && 'request', response_transform && 'response'].filter(Boolean).join(', ') || 'no';

/** Never with a key. */
const listTable = (proxies: readonly Proxy[], names: ReadonlyMap<string, string>): Html =>
  recordsTable('Proxies', proxies, [
    { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${foreign(name)}</a>` },
    { label: 'Destination', cell: ({ destination_url }) => html`<code>${destination_url}</code>` },
    { label: 'Access', cell: authBadge },
    {
      label: 'Application',
      cell: ({ application_id: id }) =>
        id === undefined ? html`<span class="quiet">none</span>` : foreign(names.get(id) ?? id),
    },
    { label: 'Transforms', cell: transformsOf },
  ]);

const listPage = async (visit: Visit, findNames: ActorNames): Promise<string> => {
  const name = visit.query('name');
  const page = pageNumber(visit.query('page'));
  const { data, pagination } = bodyOf<ListPage>(
    await visit.api({ method: 'GET', url: addressOf('/proxies', { name, page }) }),
  );
  const names = await findNames(
    visit,
    data.map(({ application_id }) => application_id),
  );
  const nothing =
    name === '' ? html`There is no proxy yet: <code>POST /proxies</code> makes one.` : 'No proxy has such a name.';
  return consolePage(visit.session, {
    title: 'Proxies',
    section: 'Proxies',
    main: html`<div class="heading"><h1>Proxies</h1><a class="button second" href="${PATH}/test">Try a destination</a></div>
<form method="get" action="${PATH}" class="filters">
<label>Name<input type="search" name="name" value="${name}" maxlength="400" placeholder="Payments*"></label>
<div class="actions"><button class="second">Find</button>${name !== '' && html`<a href="${PATH}">All</a>`}</div>
</form>
${data.length === 0 ? empty(nothing) : listTable(data, names)}
${pagerOf(pagination, { path: PATH, parameters: { name }, label: 'Pages of proxies' })}`,
  });
};

const typedIn = ({ field }: Deed): Typed => ({
  destination: field('destination').trim(),
  method: field('method'),
  path: field('path').trim(),
  headers: linesOf(field('headers')),
  body: linesOf(field('body')),
});

/** The header that names where it goes. */
const routeOf = ({ proxy, typed }: Tester): Record<string, string> =>
  proxy ? { 'svc-proxy-key': proxy.key ?? '' } : { 'svc-proxy-url': URL.parse(typed.destination)?.href ?? '' };

const tryRequest = async (deed: Deed, console: Console, tester: Tester): Promise<Outcome> => {
  const show = (status: number, more: Partial<Tester>): Outcome => ({
    status,
    page: proxyPage(deed.session, { ...tester, ...more }),
  });
  const { request, problems } = readRequest(tester.typed);
  if (!request) return show(422, { problems });
  return deed.field('do') === 'send'
    ? send(deed, console, { tester, request, show })
    : show(200, { above: await checkRequest(deed, request) });
};

const send = async (
  deed: Deed,
  console: Console,
  {
    tester,
    request,
    show,
  }: { tester: Tester; request: ReadRequest; show(status: number, more: Partial<Tester>): Outcome },
): Promise<Outcome> => {
  if (!tester.proxy && !URL.canParse(tester.typed.destination))
    return show(422, { problems: { destination: ['The destination must be an https URL.'] } });
  if (deed.field('sure') !== 'yes')
    return show(422, { problems: { sure: ['Say that it is to be sent. Nothing was sent.'] } });
  return show(200, { above: await sendRequest(deed, console, request, routeOf(tester)) });
};

export const proxiesPages = (console: Console, findNames: ActorNames): void => {
  const findTester = async (visit: Visit): Promise<Tester> => {
    const proxy = bodyOf<Proxy>(await visit.api({ method: 'GET', url: `/proxies/${idOf(visit, 'proxy')}` }));
    const id = proxy.application_id;
    const application = id === undefined ? undefined : ((await findNames(visit, [id])).get(id) ?? id);
    return { proxy, application, typed: newRequest, problems: {} };
  };

  const byHand: Tester = { proxy: undefined, application: undefined, typed: newRequest, problems: {} };

  console.get(PATH, (visit) => listPage(visit, findNames));
  console.get(`${PATH}/test`, async ({ session }) => proxyPage(session, byHand));
  console.post(`${PATH}/test`, (deed) => tryRequest(deed, console, { ...byHand, typed: typedIn(deed) }));
  console.get(`${PATH}/:id`, async (visit) => proxyPage(visit.session, await findTester(visit)));
  console.post(`${PATH}/:id`, async (deed) =>
    tryRequest(deed, console, { ...(await findTester(deed)), typed: typedIn(deed) }),
  );
};
