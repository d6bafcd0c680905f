// Serves the front page, the OpenAPI document, and the API reference, whose pages are made of the document. Each is made on its
// first request and kept compressed, so that neither the start nor a later request makes any of it.
import { notFound } from '../../platform/base/errors.ts';
import { version } from '../../platform/base/version.ts';
import { type Config, consoleUrlOf } from '../../platform/config/config.ts';
import type { App } from '../../platform/http/app-type.ts';
import { createPacked, sendPacked } from '../../platform/http/assets.ts';
import { readDocument } from '../../platform/http/openapi/openapi.ts';
import { withPrefixes } from '../../platform/http/openapi/prefixed-document.ts';
import { DOCS_PATH, DOCUMENT_PATH, GUIDES_PATH, type Places } from './frame.ts';
import { guidesPages } from './guide-routes.ts';
import { type Node, readReference } from './reference.ts';
import { chapterPage, createOverview } from './reference-pages.ts';
import { HTML, once, open, sendShared } from './serving.ts';

const welcome = { name: 'Strongroom', version, docs: DOCS_PATH, guides: GUIDES_PATH, openapi: DOCUMENT_PATH };

/** The committed document has an address, as generated clients need one. The served document has its own server. */
const servedFrom = [{ url: '/', description: 'The vault that serves this document.' }];

type DocsConfig = Pick<Config, 'headerPrefixes' | 'publicUrl' | 'console' | 'consoleHost'>;

/** The front page, and the document. */
export const docsRoutes = (app: App, { headerPrefixes }: DocsConfig): void => {
  app.get('/', open, async (request, reply) => {
    reply.header('vary', 'accept');
    return (request.headers.accept ?? '').includes('text/html') ? reply.redirect(DOCS_PATH, 302) : welcome;
  });
  const served = createPacked(() =>
    JSON.stringify(withPrefixes({ ...readDocument(), servers: servedFrom }, headerPrefixes)),
  );
  app.get(DOCUMENT_PATH, open, async (request, reply) =>
    sendShared(request, reply, 'application/json; charset=utf-8', served),
  );
};

/** Call within `addPages`. */
export const docsPages = (scope: App, config: DocsConfig): void => {
  const reference = once(() => readReference(withPrefixes(readDocument(), config.headerPrefixes) as Node));
  const places = once((): Places => {
    const serverUrl = config.publicUrl ?? reference().serverUrl;
    const origin = config.consoleHost === undefined ? '' : consoleUrlOf(config, serverUrl);
    return { serverUrl, consoleUrl: config.console ? `${origin}/console` : undefined };
  });
  const overview = once(() => createOverview(reference(), places()));
  const first = createPacked(() => overview()(''));
  const chapters = once(
    () =>
      new Map(
        reference()
          .groups.flatMap((group) => group.chapters)
          .map((chapter) => [chapter.slug, createPacked(() => chapterPage(reference(), places(), chapter))] as const),
      ),
  );
  scope.get(DOCS_PATH, open, async (request, reply) => {
    const { q = '' } = request.query as { q?: unknown };
    if (typeof q !== 'string' || q.trim() === '') return sendShared(request, reply, HTML, first);
    return sendPacked(
      request,
      reply,
      HTML,
      createPacked(() => overview()(q)),
    );
  });
  scope.get(`${DOCS_PATH}/:chapter`, open, async (request, reply) => {
    const page = chapters().get((request.params as { chapter: string }).chapter);
    if (page === undefined) throw notFound('chapter');
    return sendShared(request, reply, HTML, page);
  });
  guidesPages(scope, () => places().consoleUrl);
};
