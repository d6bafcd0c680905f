// Finds the Markdown files of docs/ and gives each an address: docs/guides/tokenize.md is /guides/tokenize,
// docs/api.md is /guides/reference/api. Links of a page to other files become addresses too.
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { GUIDES_PATH } from './frame.ts';
import { folders, isUnlisted, type Role, roles } from './guide-list.ts';
import { plainText, type Targets } from './markdown.ts';

const ROOT = new URL('../../../', import.meta.url);
export const PICTURES = new URL('docs/pictures/', ROOT);

/** Files that the server does not have, such as code. */
const REPOSITORY = 'https://github.com/strongroom/strongroom/blob/main/';

export const PICTURES_PATH = '/assets/guides';

export type Guide = {
  /** Its path in the repository. */
  file: string;
  /** Its address, to which `.md` is added for the Markdown. */
  path: string;
  title: string;
  /** Its first paragraph, in one line. */
  summary: string;
};

export type Guides = {
  all: readonly Guide[];
  byRole: readonly { role: Role; guides: readonly Guide[] }[];
};

const pathOf = (file: string): string => {
  const name = file.slice('docs/'.length, -'.md'.length);
  if (name.startsWith('guides/')) return `${GUIDES_PATH}/${name.slice('guides/'.length)}`;
  return `${GUIDES_PATH}/${name.includes('/') ? name : `reference/${name}`}`;
};

export const readGuide = ({ file }: Pick<Guide, 'file'>): string => readFileSync(new URL(file, ROOT), 'utf8');

const guideOf = (file: string): Guide => {
  const [title = '', ...parts] = readGuide({ file }).split(/\n{2,}/);
  const summary = parts.find((part) => /^(?!Status: |```|- |\d+\. )[^#|!<]/.test(part)) ?? '';
  return {
    file,
    path: pathOf(file),
    title: plainText(title.replace(/^# /, '')),
    summary: plainText(summary.replaceAll(/\s+/g, ' ')),
  };
};

/** All pages that the server has. @throws Error where a listed page is missing. */
export const readGuides = (): Guides => {
  const files = folders.flatMap((folder) =>
    readdirSync(new URL(`${folder}/`, ROOT))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${folder}/${name}`),
  );
  const guides = new Map(files.map((file) => [file, guideOf(file)]));
  const byRole = roles.map((role) => ({
    role,
    guides: role.pages.map((page) => {
      const guide = guides.get(page);
      if (guide === undefined) throw new Error(`src/modules/docs/guide-list.ts lists ${page}, which is missing.`);
      return guide;
    }),
  }));
  return { all: [...guides.values()], byRole };
};

/** Pages that no one finds: neither listed nor of a folder that has an index. */
export const unlistedFiles = ({ all, byRole }: Guides): string[] => {
  const listed = new Set(byRole.flatMap(({ guides }) => guides));
  return all.filter((guide) => !listed.has(guide) && !isUnlisted(guide.file)).map(({ file }) => file);
};

/** Resolves the links of a page: to a page of the server, to an address of the web, or to a file of the repository. */
export const targetsOf = ({ file }: Guide, { all }: Guides): Targets => {
  const paths = new Map(all.map((guide) => [guide.file, guide.path]));
  // It begins with the same steps.
  paths.set('README.md', `${GUIDES_PATH}/start`);
  return {
    link: (href) => {
      if (/^(?:#|https?:\/\/|mailto:)/.test(href)) return href;
      const [target = '', anchor] = href.split('#');
      const to = posix.join(posix.dirname(file), target);
      const path = paths.get(to) ?? REPOSITORY + to;
      return anchor === undefined ? path : `${path}#${anchor}`;
    },
    picture: (href) => `${PICTURES_PATH}/${posix.basename(href)}`,
  };
};

/** The Markdown with links that lead somewhere from its own address. Code stays as it is. */
export const linkedMarkdown = (guide: Guide, guides: Guides): string => {
  const { link, picture } = targetsOf(guide, guides);
  return readGuide(guide)
    .split(/^(```[\s\S]*?^```$)/m)
    .map((part) =>
      part.startsWith('```')
        ? part
        : part.replaceAll(
            /(!?)(\[[^\]]*\])\(([^)\s]+)\)/g,
            (_, mark: string, text: string, href: string) =>
              `${mark}${text}(${mark === '' ? link(href).replace(/^\/guides\/[^#]*/, '$&.md') : picture(href)})`,
          ),
    )
    .join('');
};
