// The filter json: JSONPath (RFC 9535) with a bound. The library that reads and follows paths has none of its own, so the
// cost of a path is estimated, and paid, before it is followed.
import { query as jsonPath } from 'jsonpath-rfc9535';
import parseJsonPath, { type JsonPathQuery } from 'jsonpath-rfc9535/parser';
import { ExpressionError } from './expression-error.ts';
import { badArgument, type Call, textArgument } from './filter-call.ts';
import { type Json, valueAt } from './json.ts';
import { spend, WORK } from './meter.ts';

const JSON_PATH_LENGTH_MAX = 400;

type PathSegment = JsonPathQuery['segments'][number];
type PathSelector = Extract<PathSegment['node'], { selectors: unknown }>['selectors'][number] | PathSegment['node'];
type PathFilter = Extract<PathSelector, { type: 'FilterSelector' }>['value'];
type PathOperand = Extract<PathFilter, { type: 'ComparisonExpr' }>['left'] | PathFilter;
type PathFunction = Extract<PathOperand, { type: 'FunctionExpr' }>;

/** How large the value is that a query starts from: nodes (long strings count as several), levels, and nodes from `$`. */
type Extent = { nodes: number; levels: number; total: number };

const selectorsOf = ({ node }: PathSegment): readonly PathSelector[] =>
  node.type === 'BracketedSelection' ? node.selectors : [node];

const isSingular = ({ type }: PathSelector): boolean =>
  type === 'NameSelector' || type === 'MemberNameShorthand' || type === 'IndexSelector';

const extentOf = (value: Json, call: Call): Extent => {
  let nodes = 0;
  let levels = 0;
  for (let level: Json[] = [value]; level.length > 0; levels += 1) {
    // Looking costs, too: paid level by level, so that a spent meter stops it.
    spend(call.meter, level.length * WORK.node);
    const below: Json[] = [];
    for (const item of level) {
      nodes += typeof item === 'string' ? 1 + item.length / 16 : 1;
      if (typeof item === 'object' && item !== null)
        for (const child of Array.isArray(item) ? item : Object.values(item)) below.push(child);
    }
    level = below;
  }
  return { nodes, levels, total: nodes };
};

/**
 * An upper bound of the nodes a query visits. RFC 9535 lets nodelists hold a node many times, so that `..*..*` and
 * `[0,0][0,0]` grow as powers; the library has no limit of its own, hence the bound before it starts.
 */
const queryCost = (segments: readonly PathSegment[], extent: Extent): number => {
  let cost = 1;
  let reached = 1;
  let copies = 1;
  for (const segment of segments) {
    const selectors = selectorsOf(segment);
    const descends = segment.type === 'DescendantSegment';
    // A node is below as many of the others as there are levels above it: so often a descent may reach it.
    copies *= selectors.length * (descends ? Math.min(extent.levels, reached) : 1);
    const single = !descends && selectors.every(isSingular);
    reached = Math.min(single ? reached * selectors.length : Infinity, extent.nodes * copies);
    // A filter looks below each node it tries. All those parts together are no more than every node once a level.
    const below = { ...extent, nodes: extent.levels };
    let each = 1;
    for (const selector of selectors) if (selector.type === 'FilterSelector') each += filterCost(selector.value, below);
    cost += reached * each;
  }
  return cost;
};

const filterCost = (filter: PathOperand | PathFunction['arguments'][number], extent: Extent): number => {
  switch (filter.type) {
    case 'LogicalOrExpr':
    case 'LogicalAndExpr':
      return filterCost(filter.left, extent) + filterCost(filter.right, extent);
    case 'ComparisonExpr': {
      // Two values that are the same for every node may both be large, and are compared anew for each.
      const fixed = [filter.left, filter.right].every(
        ({ type }) => type === 'AbsSingularQuery' || type === 'FunctionExpr',
      );
      return filterCost(filter.left, extent) + filterCost(filter.right, extent) + (fixed ? extent.total : 1);
    }
    case 'LogicalNotExpr':
    case 'TestExpr':
      return filterCost(filter.expression, extent);
    case 'FilterQuery':
      return queryCost(
        filter.value.segments,
        filter.value.type === 'RelQuery' ? extent : { ...extent, nodes: extent.total },
      );
    case 'FunctionExpr': {
      const relative = filter.arguments.every(
        (argument) =>
          argument.type === 'Literal' || (argument.type === 'FilterQuery' && argument.value.type === 'RelQuery'),
      );
      const read = relative ? extent.nodes : extent.total;
      return filter.arguments.reduce((cost, argument) => cost + filterCost(argument, extent), read);
    }
    case 'RelSingularQuery':
    case 'AbsSingularQuery':
      return filter.segments.length;
    case 'Literal':
      return 1;
  }
};

/** match() and search() would run the caller's pattern on a backtracking engine: no length makes that safe. */
const usesPatterns = (node: unknown): boolean => {
  if (typeof node !== 'object' || node === null) return false;
  const { type, name } = node as { type?: unknown; name?: unknown };
  if (type === 'FunctionExpr' && (name === 'match' || name === 'search')) return true;
  return Object.values(node).some(usesPatterns);
};

/** Names and indexes alone, in dots and brackets. */
const plainPath = /^\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8})\])*$/;

const plainSteps = (path: string): (string | number)[] =>
  Array.from(path.matchAll(/\.([A-Za-z0-9_]+)|\[([0-9]+)\]/g), ([, name, index]) => name ?? Number(index));

const parsePath = (path: string, call: Call): JsonPathQuery => {
  spend(call.meter, WORK.path + path.length * WORK.pathCharacter);
  let query: JsonPathQuery;
  try {
    query = parseJsonPath(path);
  } catch {
    throw badArgument(call, 'a valid JSONPath (RFC 9535)');
  }
  if (usesPatterns(query)) throw badArgument(call, 'a JSONPath without match() and search()');
  return query;
};

/** RFC 9535; at most one value, none is null. */
export const json = (value: Json, call: Call): Json => {
  const path = textArgument(call, 0);
  if (path.length > JSON_PATH_LENGTH_MAX)
    throw badArgument(call, `a path of at most ${JSON_PATH_LENGTH_MAX} characters`);
  // Nearly every path is one of these, and the library takes 20 us to read it (measured).
  if (plainPath.test(path)) return valueAt(value, plainSteps(path)) ?? null;
  const { segments } = parsePath(path, call);
  if (
    !segments.every(
      (segment) =>
        segment.type === 'ChildSegment' && selectorsOf(segment).every(isSingular) && selectorsOf(segment).length === 1,
    )
  ) {
    const extent = extentOf(value, call);
    spend(call.meter, (extent.nodes + queryCost(segments, extent)) * WORK.visitedNode);
  }
  const found = jsonPath(value, path) as Json[];
  if (found.length > 1) throw new ExpressionError('not_one_value', 'must find one value with the filter json');
  return found[0] ?? null;
};
