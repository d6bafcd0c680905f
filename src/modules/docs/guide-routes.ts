// Serves the guides: the Markdown of docs/ as pages, and as it is. Each page is made on its first request and kept compressed, so
// that memory is bounded by the files of docs/.
import { readdirSync, readFileSync } from 'node:fs';
import { notFound } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { createPacked, sendPacked } from '../../platform/http/assets.ts';
import { GUIDES_PATH } from './frame.ts';
import { linkedMarkdown, PICTURES, PICTURES_PATH, readGuides } from './guide-files.ts';
import { foundPage, guidePage, guidesOverview, LLMS_PATH, llmsText } from './guide-pages.ts';
import { createGuideSearch } from './guide-search.ts';
import { HTML, once, open, sendShared } from './serving.ts';

const TEXT = 'text/plain; charset=utf-8';
const MARKDOWN = 'text/markdown; charset=utf-8';

const pictureTypes: Record<string, string> = { svg: 'image/svg+xml', png: 'image/png' };

type Served = { type: string; packed: () => Promise<Buffer> };

/** The pictures of the guides, by their names. */
const readPictures = (): Map<string, Served> =>
  new Map(
    readdirSync(PICTURES).flatMap((name) => {
      const type = pictureTypes[name.split('.').at(-1) ?? ''];
      return type === undefined
        ? []
        : [[name, { type, packed: createPacked(() => readFileSync(new URL(name, PICTURES))) }] as const];
    }),
  );

/** Call within `addPages`. @param consoleUrl called with the first request. */
export const guidesPages = (scope: App, consoleUrl: () => string | undefined): void => {
  const frame = once(() => ({ guides: readGuides(), consoleUrl: consoleUrl() }));
  const overview = createPacked(() => guidesOverview(frame()));
  const llms = createPacked(() => llmsText(frame().guides));
  const search = once(() => createGuideSearch(frame().guides));
  const pictures = once(readPictures);
  const texts = once(
    () =>
      new Map<string, Served>(
        frame().guides.all.flatMap((guide) => [
          [guide.path, { type: HTML, packed: createPacked(() => guidePage(frame(), guide)) }],
          [`${guide.path}.md`, { type: MARKDOWN, packed: createPacked(() => linkedMarkdown(guide, frame().guides)) }],
        ]),
      ),
  );

  scope.get(GUIDES_PATH, open, async (request, reply) => {
    const { q = '' } = request.query as { q?: unknown };
    if (typeof q !== 'string' || q.trim() === '') return sendShared(request, reply, HTML, overview);
    return sendPacked(
      request,
      reply,
      HTML,
      createPacked(() => foundPage(frame(), q, search()(q))),
    );
  });
  scope.get(`${GUIDES_PATH}/*`, open, async (request, reply) => {
    const found = texts().get(`${GUIDES_PATH}/${(request.params as { '*': string })['*']}`);
    if (found === undefined) throw notFound('guide');
    return sendShared(request, reply, found.type, found.packed);
  });
  scope.get(LLMS_PATH, open, async (request, reply) => sendShared(request, reply, TEXT, llms));
  scope.get(`${PICTURES_PATH}/:picture`, open, async (request, reply) => {
    const found = pictures().get((request.params as { picture: string }).picture);
    if (found === undefined) throw notFound('picture');
    return sendShared(request, reply, found.type, found.packed);
  });
};
