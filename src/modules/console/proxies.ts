// The proxy pages: lists stored proxies, and previews and sends a request through the public API.
import { html, type Html } from '../../platform/http/html.ts';
import { namesOf } from './actor-names.ts';
import { findVersions, proxyCode, restoredNotice, versionPages, versionsCard } from './code-versions.ts';
import { linesOf } from './forms.ts';
import { isolated } from './list-parts.ts';
import { nameSearch, pagerOf, readNamedPage } from './pager.ts';
import { proxyKeyPages } from './proxy-key.ts';
import { authBadge, proxyPage, type Tester } from './proxy-page.ts';
import type { Proxy } from './proxy-record.ts';
import { showPreview } from './proxy-preview.ts';
import { requestsCard } from './proxy-requests.ts';
import { newRequest, readRequest, type Typed } from './proxy-request.ts';
import { findStoredProxy, proxySavePages } from './proxy-save.ts';
import { sendRequest } from './proxy-send.ts';
import { findTokens } from './token-picker.ts';
import { consolePage, empty, may, notice, recordsTable } from './shell.ts';
import { type Console, type Submission, type Outcome, type Visit } from './visit.ts';

const PATH = '/console/proxies';

/** Results that a URL may name. A closed list, because anyone can make a URL. */
const doneSentences: ReadonlyMap<string, string> = new Map([
  ['made', 'The proxy was created. Preview a request below.'],
  ['saved', 'Saved. Takes effect now.'],
]);

const transformsOf = ({ request_transform, response_transform }: Proxy): string =>
  [request_transform && 'request', response_transform && 'response'].filter(Boolean).join(', ') || 'no';

/** Without keys. */
const listTable = (proxies: readonly Proxy[], names: ReadonlyMap<string, string>): Html =>
  recordsTable('Proxies', proxies, [
    { label: 'Name', cell: ({ id, name }) => html`<a href="${PATH}/${id}">${isolated(name)}</a>` },
    { label: 'Destination', cell: ({ destination_url }) => html`<code>${destination_url}</code>` },
    { label: 'Access', cell: authBadge },
    {
      label: 'Application',
      cell: ({ application_id: id }) =>
        id === undefined ? html`<span class="quiet">none</span>` : isolated(names.get(id) ?? id),
    },
    { label: 'Transforms', cell: transformsOf },
  ]);

const listPage = async (visit: Visit): Promise<string> => {
  const { name, data, pagination } = await readNamedPage<Proxy>(visit, '/proxies');
  const names = await namesOf(
    visit,
    data.map(({ application_id }) => application_id),
  );
  const nothing = name === '' ? 'No proxies yet.' : 'No proxies match.';
  return consolePage(visit.session, {
    title: 'Proxies',
    section: 'Proxies',
    main: html`<div class="heading"><h1>Proxies</h1><span class="actions"><a class="button second" href="${PATH}/test">Try a destination</a>${may(visit.session, 'proxy:create') && html`<a class="button" href="${PATH}/new">New proxy</a>`}</span></div>
${visit.query('done') === 'deleted' && notice('good', 'The proxy was deleted. Its key no longer works.')}
${nameSearch(PATH, name, 'Payments*')}
${data.length === 0 ? empty(nothing) : listTable(data, names)}
${pagerOf(pagination, { path: PATH, parameters: { name }, label: 'Pages of proxies' })}`,
  });
};

const typedIn = ({ field }: Submission): Typed => ({
  destination: field('destination').trim(),
  method: field('method'),
  path: field('path').trim(),
  headers: linesOf(field('headers')),
  body: linesOf(field('body')),
});

/** Shown again where the second factor is needed first. */
const typedFields = ['destination', 'path', 'headers', 'body'];

/** The header that names the proxy or the destination. The key is there for who reads the proxy. */
const routeOf = ({ proxy, typed }: Tester): Record<string, string> =>
  proxy ? { 'svc-proxy-key': proxy.key ?? '' } : { 'svc-proxy-url': URL.parse(typed.destination)?.href ?? '' };

const NO_DESTINATION = { destination: ['The destination must be an https URL.'] };

const tryRequest = async (submission: Submission, tester: Tester): Promise<Outcome> => {
  const show = (status: number, more: Partial<Tester>): Outcome => ({
    status,
    page: proxyPage(submission, { ...tester, ...more }),
  });
  if (submission.field('do') === 'pick')
    return show(200, { picked: await findTokens(submission, submission.field('last4')) });
  const { request, problems } = readRequest(tester.typed, submission.ctx.config.headerPrefixes);
  if (!request) return show(422, { problems });
  if (!tester.proxy && !URL.canParse(tester.typed.destination)) return show(422, { problems: NO_DESTINATION });
  const route = routeOf(tester);
  if (submission.field('do') !== 'send')
    return show(200, { above: await showPreview(submission, { proxy: tester.proxy, request, route }) });
  if (submission.field('sure') !== 'yes')
    return show(422, { problems: { sure: ['Say that it is to be sent. Nothing was sent.'] } });
  return show(200, { above: await sendRequest(submission, request, route) });
};

export const proxiesPages = (console: Console): void => {
  const findTester = async (visit: Visit): Promise<Tester> => {
    const proxy = await findStoredProxy(visit);
    const id = proxy.application_id;
    const [names, requests, versions] = await Promise.all([
      namesOf(visit, [id]),
      requestsCard(visit, proxy.id),
      findVersions(visit, proxyCode, proxy.id),
    ]);
    const application = id === undefined ? undefined : (names.get(id) ?? id);
    const card = versionsCard(visit, proxyCode, proxy.id, versions);
    return { proxy, application, requests, versions: card, typed: newRequest, problems: {} };
  };

  const byHand: Tester = { proxy: undefined, application: undefined, typed: newRequest, problems: {} };

  console.get(PATH, (visit) => listPage(visit));
  console.get(`${PATH}/test`, async (visit) => proxyPage(visit, byHand));
  // To preview a request needs no second factor, and to send it does: the API asks for it.
  console.post(
    `${PATH}/test`,
    (submission) => tryRequest(submission, { ...byHand, typed: typedIn(submission) }),
    typedFields,
  );
  proxySavePages(console);
  proxyKeyPages(console);
  versionPages(console, proxyCode);
  console.get(`${PATH}/:id`, async (visit) => {
    const sentence = doneSentences.get(visit.query('done'));
    const above = sentence === undefined ? restoredNotice(visit) : notice('good', sentence);
    return proxyPage(visit, { ...(await findTester(visit)), above });
  });
  console.post(
    `${PATH}/:id`,
    async (submission) => tryRequest(submission, { ...(await findTester(submission)), typed: typedIn(submission) }),
    typedFields,
  );
};
