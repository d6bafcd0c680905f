// npm run house: the size and the shape of the code. Prints code lines and files by folder, files with one importer, circles
// of folders, and the longest functions. Ends with 1 if folders import each other in circles.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript-5';
import { findCircles, listSources, readImports, resolveImport, root } from './support/source-graph.ts';

/** From here on a function deserves a second look. */
const LONG_FUNCTION_LINES = 70;

const files = ['src', 'packages'].flatMap((folder) => listSources(folder).map((file) => `${folder}/${file}`));

const sources = new Map(
  files.map((file) => [
    file,
    ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.Latest, true),
  ]),
);

/** Numbers of the lines with code: blank lines and comments are left out. */
const findCodeLines = (source: ts.SourceFile): Set<number> => {
  const lines = new Set<number>();
  const visit = (node: ts.Node): void => {
    if (ts.isJSDoc(node)) return;
    if (node.getChildCount(source) > 0) return node.getChildren(source).forEach(visit);
    if (node.kind === ts.SyntaxKind.EndOfFileToken || node.end === node.pos) return;
    const [first, last] = [node.getStart(source), node.end].map((at) => source.getLineAndCharacterOfPosition(at).line);
    for (let line = first as number; line <= (last as number); line += 1) lines.add(line);
  };
  source.statements.forEach(visit);
  return lines;
};

/** The folder that the rules of the layout rank: a module, a folder of the platform, a package, or the top of `src`. */
const toFolder = (file: string): string => {
  const parts = file.split('/');
  const depth = ['modules', 'platform'].includes(parts[1] ?? '') ? 3 : 2;
  return parts.slice(0, Math.min(depth, parts.length - 1)).join('/');
};

const printTable = (title: string, rows: readonly (readonly [string, ...number[]])[]): void => {
  console.log(`\n${title}`);
  for (const [name, ...numbers] of rows)
    console.log(`${name.padEnd(56)}${numbers.map((number) => String(number).padStart(8)).join('')}`);
};

const lines = new Map([...sources].map(([file, source]) => [file, findCodeLines(source).size]));
const byFolder = Object.entries(Object.groupBy(files, toFolder)).map(
  ([folder, of = []]) => [folder, of.length, of.reduce((sum, file) => sum + (lines.get(file) ?? 0), 0)] as const,
);
printTable('Files and code lines by folder (tests not counted)', [
  ...byFolder,
  ['all', files.length, [...lines.values()].reduce((sum, count) => sum + count, 0)],
]);

const importers = new Map<string, Set<string>>();
const edges = new Map(byFolder.map(([folder]) => [folder, new Set<string>()]));
for (const file of files)
  for (const each of readImports('.', file)) {
    const to = resolveImport(each);
    if (to === undefined || !lines.has(to)) continue;
    importers.set(to, (importers.get(to) ?? new Set()).add(file));
    if (toFolder(to) !== toFolder(file)) edges.get(toFolder(file))?.add(toFolder(to));
  }
const single = files.filter((file) => importers.get(file)?.size === 1);
printTable(
  `Files with one importer: ${single.length}`,
  Object.entries(Object.groupBy(single, toFolder)).map(([folder, of = []]) => [folder, of.length] as const),
);
if (process.argv.includes('--single'))
  for (const file of single)
    console.log(`${String(lines.get(file)).padStart(5)} ${file} < ${[...(importers.get(file) ?? [])].join()}`);

const functions = [...sources].flatMap(([file, source]) => {
  const found: [string, number][] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const [first, last] = [node.getStart(source), node.end].map(
        (at) => source.getLineAndCharacterOfPosition(at).line,
      );
      const name = node.name ?? (ts.isVariableDeclaration(node.parent) ? node.parent.name : undefined);
      found.push([
        `${file}:${(first as number) + 1} ${name?.getText(source) ?? ''}`,
        (last as number) - (first as number) + 1,
      ]);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
});
const long = functions.filter(([, length]) => length > LONG_FUNCTION_LINES).toSorted((a, b) => b[1] - a[1]);
printTable(`Functions of more than ${LONG_FUNCTION_LINES} lines: ${long.length}`, long.slice(0, 30));

const circles = findCircles(edges);
console.log(`\nCircles of folders: ${circles.length}`);
for (const circle of circles) console.log(circle.join(' '));
process.exitCode = circles.length === 0 ? 0 : 1;
