// Reads source files and who imports whom: for the test of the layout, and for `npm run house`.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export type Import = { file: string; line: number; text: string; from: string; isType: boolean };

/** The root of the repository. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Files of TypeScript and CommonJS below a folder of the repository, as paths from it: no tests, nothing generated. */
export const listSources = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter(
    (file) =>
      /\.(ts|tsx|cjs)$/.test(file) &&
      !/(^|\/)(generated|node_modules|dist|test)\//.test(file) &&
      !/\.test\.ts$|\.d\.ts$/.test(file),
  );

/** Every import, export from, dynamic import and require of a file in a folder. */
export const readImports = (folder: string, file: string): Import[] => {
  const code = readFileSync(join(root, folder, file), 'utf8');
  return [
    ...code.matchAll(
      /^(?:import|export)\s+(type\s+)?[^;]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)|\brequire\('([^']+)'\)/gm,
    ),
  ].map((match) => {
    const [text, type, from, bare, dynamic, required] = match;
    return {
      file,
      line: code.slice(0, match.index).split('\n').length,
      text: text.replace(/\s+/g, ' '),
      from: from ?? bare ?? dynamic ?? required ?? '',
      isType: type !== undefined,
    };
  });
};

/** The file that an import names, as a path from the same folder; undefined for packages. */
export const resolveImport = ({ file, from }: Import): string | undefined =>
  from.startsWith('.') ? relative(root, join(root, dirname(file), from)) : undefined;

/** Groups of nodes that reach each other, directly or through others (Tarjan's strongly connected components). */
export const findCircles = (edges: ReadonlyMap<string, Iterable<string>>): string[][] => {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (node: string): void => {
    order.set(node, order.size);
    lowest.set(node, order.get(node) as number);
    stack.push(node);
    for (const to of edges.get(node) ?? []) {
      if (!order.has(to)) visit(to);
      else if (!stack.includes(to)) continue;
      lowest.set(node, Math.min(lowest.get(node) as number, lowest.get(to) as number));
    }
    if (lowest.get(node) !== order.get(node)) return;
    const circle = stack.splice(stack.indexOf(node));
    if (circle.length > 1) circles.push(circle.toSorted());
  };
  for (const node of edges.keys()) if (!order.has(node)) visit(node);
  return circles;
};
