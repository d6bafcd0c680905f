// Keeps commands in a container from writing a file that would go with it: a backup in the container's own file system or in its
// memory looks written, and is lost when the container ends.
import { readFileSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { IS_IMAGE } from '../platform/base/program.ts';
import { UsageError } from './command.ts';

/** A line of /proc/self/mountinfo: what of a file system is mounted where. */
type Mount = { source: string; point: string; type: string };

/** Blanks, tabs and backslashes of paths are octal numbers there. */
const unescaped = (text: string): string =>
  text.replaceAll(/\\([0-7]{3})/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 8)));

const parseMounts = (mountinfo: string): Mount[] =>
  mountinfo
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [own = '', kind = ''] = line.split(' - ');
      const [, , , source = '', point = ''] = own.split(' ');
      return { source: unescaped(source), point: unescaped(point), type: kind.split(' ')[0] ?? '' };
    });

const isBelow = (path: string, point: string): boolean =>
  point === '/' || path === point || path.startsWith(`${point}/`);

/**
 * What of a container a path is in, if it goes with the container; undefined for a volume or a directory of the host.
 * @param path absolute, without symbolic links.
 * @param mountinfo content of /proc/self/mountinfo.
 */
export const placeLost = (path: string, mountinfo: string): string | undefined => {
  // The last of several mounts at one place is the one that is seen.
  const mounts = parseMounts(mountinfo).filter(({ point }) => isBelow(path, point));
  const length = Math.max(...mounts.map(({ point }) => point.length));
  const mount = mounts.findLast(({ point }) => point.length === length);
  if (!mount || mount.point === '/') return 'the file system of this container';
  // A directory of the host that is in memory there is the host's, and has another source than the root of its file system.
  if (/^(?:tmpfs|ramfs)$/.test(mount.type) && mount.source === '/') return 'the memory of this container';
  return mount.source.includes('/kubernetes.io~empty-dir/') ? 'an emptyDir of this pod' : undefined;
};

/** Without the symbolic links of what exists of it. */
const realPath = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    return path === '/' ? path : join(realPath(dirname(path)), basename(path));
  }
};

/** @throws UsageError in a container for a path that would go with it. Nothing was written then. */
export const refuseLostFile = (path: string): void => {
  if (!IS_IMAGE) return;
  const place = placeLost(realPath(resolve(path)), readFileSync('/proc/self/mountinfo', 'utf8'));
  if (place === undefined) return;
  const better = `/files/${basename(resolve(path)) || 'NAME'}`;
  throw new UsageError(
    `${path} is in ${place}, and would be lost with it. Nothing was written. Name a place in a volume, such as ${better}: compose has one at /files, and docker run takes -v strongroom-files:/files. Copy it from there: docker compose cp api:${better} .`,
  );
};
