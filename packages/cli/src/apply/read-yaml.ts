// Reads YAML as data alone: no tags, anchors and aliases, no name twice, one document. Each error has its line.
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  type Node,
  parseAllDocuments,
  type ParsedNode,
  visit,
  type YAMLMap,
} from 'yaml';
import { CliError, EXIT } from '../exit-codes.ts';
import { cleanText } from '../io.ts';

/** What is wrong at one place of a file. */
export type Fault = { line: number; column: number; text: string };

/** Longer lists of faults hide the first one. */
const FAULTS_SHOWN = 10;

export type YamlFile = {
  root: ParsedNode;
  /** Line and column at which a node begins, from 1. */
  placeOf(node: Node | null | undefined): { line: number; column: number };
};

/** One line for each fault, as compilers write them. */
export const faultsError = (path: string, faults: readonly Fault[]): CliError => {
  const sorted = faults.toSorted((one, other) => one.line - other.line || one.column - other.column);
  const shown = sorted
    .slice(0, FAULTS_SHOWN)
    .map(({ line, column, text }) => `${path}:${line}:${column}: ${cleanText(text)}`);
  const more = faults.length > FAULTS_SHOWN ? [`And ${faults.length - FAULTS_SHOWN} more.`] : [];
  return new CliError([...shown, ...more].join('\n'), EXIT.file);
};

const SENTENCES: Record<string, string> = {
  TAG_RESOLVE_FAILED: 'Tags are not read: write the value without it.',
  MULTIPLE_DOCS: 'The file must have one document.',
};

const REPEATED = 'This name is there twice in its object.';

/** In place of the parser's own check, which compares each name with each other one: minutes for a long file. */
const findRepeated = (map: YAMLMap): Node[] => {
  const seen = new Set<unknown>();
  return map.items.flatMap(({ key }) => {
    const name = isScalar(key) ? key.value : key;
    if (!seen.has(name)) {
      seen.add(name);
      return [];
    }
    return [key as Node];
  });
};

const TOO_DEEP = 'The file is nested too deep.';

/** @throws CliError with every fault that was found. */
export const readYaml = (text: string, path: string): YamlFile => {
  const lines = new LineCounter();
  const at = (offset: number): { line: number; column: number } => {
    const { line, col } = lines.linePos(Math.max(0, offset));
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const fail = (offset: number, sentence: string): never => {
    throw faultsError(path, [{ ...at(offset), text: sentence }]);
  };
  let documents;
  try {
    documents = parseAllDocuments(text, {
      lineCounter: lines,
      prettyErrors: false,
      schema: 'core',
      version: '1.2',
      uniqueKeys: false,
    });
  } catch {
    // Its other errors are in the document.
    return fail(0, TOO_DEEP);
  }
  const [document, another] = Array.isArray(documents) ? documents : [];
  if (!document?.contents) return fail(0, 'The file is empty.');
  // The parser recurses, and reports at each level that it has no more stack.
  const tooDeep = document.errors.find(({ message }) => message.includes('call stack'));
  if (tooDeep) return fail(tooDeep.pos[0], TOO_DEEP);
  const problems = [...document.errors, ...document.warnings].map(({ code, message, pos: [offset] }) => ({
    ...at(offset),
    text: SENTENCES[code] ?? `This is not YAML: ${message}`,
  }));
  if (problems.length > 0) throw faultsError(path, problems);
  if (another) return fail(another.range[0], SENTENCES['MULTIPLE_DOCS'] as string);
  const faults: Fault[] = [];
  const add = (node: Node, sentence: string): void => void faults.push({ ...at(node.range?.[0] ?? 0), text: sentence });
  visit(document, (_, node) => {
    if (!isNode(node)) return;
    if (isMap(node)) for (const key of findRepeated(node)) add(key, REPEATED);
    if (isAlias(node)) add(node, 'Aliases are not read: write the value out.');
    else if (node.anchor !== undefined) add(node, 'Anchors are not read: remove the name after &.');
    else if (node.tag !== undefined) add(node, SENTENCES['TAG_RESOLVE_FAILED'] as string);
  });
  if (faults.length > 0) throw faultsError(path, faults);
  return { root: document.contents, placeOf: (node) => at(node?.range?.[0] ?? 0) };
};
