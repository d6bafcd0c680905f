// The filter `json`: JSONPath (RFC 9535). Every visited node spends work, so that no path blocks the event loop.
import { type Absent, absentAt, badArgument, type Call, findSteps, type Steps, textArgument } from './filter-call.ts';
import { ExpressionError } from './expression-error.ts';
import { clipName, type Json, valueAt } from '../../../platform/json/json.ts';
import {
  type Comparable,
  JsonPathError,
  type Operator,
  parseJsonPath,
  type Query,
  type Segment,
  type Selector,
  type Test,
} from './json-path-parser.ts';
import { type Meter, spend, WORK } from './meter.ts';

const JSON_PATH_LENGTH_MAX = 400;

type Evaluation = { root: Json; meter: Meter };

const visit = ({ meter }: Evaluation, nodes: number): void => spend(meter, nodes * WORK.visitedNode);

/** Sixteen characters take the time of one node. */
const visitText = (evaluation: Evaluation, text: string): void => visit(evaluation, text.length / 16);

const childrenOf = (node: Json, evaluation: Evaluation): Json[] => {
  if (typeof node !== 'object' || node === null) return [];
  const children = Array.isArray(node) ? node : Object.values(node);
  visit(evaluation, children.length);
  return children;
};

// --- Segments and selectors ---

const follow = (from: Json, segments: readonly Segment[], evaluation: Evaluation): Json[] => {
  let nodes = [from];
  for (const { descends, selectors } of segments) {
    const found: Json[] = [];
    for (const node of nodes)
      for (const each of descends ? withDescendants(node, evaluation) : [node])
        for (const selector of selectors) select(each, selector, found, evaluation);
    nodes = found;
  }
  return nodes;
};

/** A node before its children, and array items in order (RFC 9535 section 2.5.2.2). */
const withDescendants = (node: Json, evaluation: Evaluation, found: Json[] = []): Json[] => {
  found.push(node);
  for (const child of childrenOf(node, evaluation)) withDescendants(child, evaluation, found);
  return found;
};

const select = (node: Json, selector: Selector, found: Json[], evaluation: Evaluation): void => {
  visit(evaluation, 1);
  switch (selector.kind) {
    case 'wildcard':
      for (const child of childrenOf(node, evaluation)) found.push(child);
      return;
    case 'filter':
      for (const child of childrenOf(node, evaluation)) if (passes(child, selector.test, evaluation)) found.push(child);
      return;
    case 'slice':
      if (Array.isArray(node)) selectSlice(node, selector, found, evaluation);
      return;
    case 'name':
    case 'index': {
      const step = selector.kind === 'name' ? selector.name : selector.index;
      const isFromEnd = typeof step === 'number' && step < 0 && Array.isArray(node);
      const value = valueAt(node, [isFromEnd ? node.length + step : step]);
      if (value !== undefined) found.push(value);
    }
  }
};

/** RFC 9535 section 2.3.4.2.2. */
const selectSlice = (
  items: Json[],
  { start, end, step }: Extract<Selector, { kind: 'slice' }>,
  found: Json[],
  evaluation: Evaluation,
): void => {
  if (step === 0) return;
  const within = (bound: number, least: number, most: number): number =>
    Math.min(Math.max(bound < 0 ? items.length + bound : bound, least), most);
  const before = items.length;
  visit(evaluation, before / Math.abs(step));
  if (step > 0) {
    const to = within(end ?? before, 0, before);
    for (let at = within(start ?? 0, 0, before); at < to; at += step) found.push(items[at] as Json);
  } else {
    const to = end === undefined ? -1 : within(end, -1, before - 1);
    const from = start === undefined ? before - 1 : within(start, -1, before - 1);
    for (let at = from; at > to; at += step) found.push(items[at] as Json);
  }
};

// --- Filters ---

const ask = (node: Json, { from, segments }: Query, evaluation: Evaluation): Json[] =>
  follow(from === 'root' ? evaluation.root : node, segments, evaluation);

const passes = (node: Json, test: Test, evaluation: Evaluation): boolean => {
  visit(evaluation, 1);
  switch (test.kind) {
    case 'or':
      return test.tests.some((each) => passes(node, each, evaluation));
    case 'and':
      return test.tests.every((each) => passes(node, each, evaluation));
    case 'not':
      return !passes(node, test.test, evaluation);
    case 'exists':
      return ask(node, test.query, evaluation).length > 0;
    case 'comparison':
      return compare(
        valueOf(node, test.left, evaluation),
        test.operator,
        valueOf(node, test.right, evaluation),
        evaluation,
      );
  }
};

/** Undefined stands for Nothing of the standard. */
const valueOf = (node: Json, comparable: Comparable, evaluation: Evaluation): Json | undefined => {
  switch (comparable.kind) {
    case 'literal':
      return comparable.value;
    case 'query':
      return ask(node, comparable.query, evaluation)[0];
    case 'count':
      return ask(node, comparable.query, evaluation).length;
    case 'value': {
      const nodes = ask(node, comparable.query, evaluation);
      return nodes.length === 1 ? nodes[0] : undefined;
    }
    case 'length':
      return lengthOf(valueOf(node, comparable.argument, evaluation), evaluation);
  }
};

/** The length of a text in code points (RFC 9535 section 2.4.4). */
const lengthOf = (value: Json | undefined, evaluation: Evaluation): number | undefined => {
  if (typeof value === 'string') {
    visit(evaluation, value.length);
    return Array.from(value).length;
  }
  return typeof value === 'object' && value !== null ? childrenOf(value, evaluation).length : undefined;
};

type Operand = Json | undefined;

const compare = (left: Operand, operator: Operator, right: Operand, evaluation: Evaluation): boolean => {
  switch (operator) {
    case '==':
      return isEqual(left, right, evaluation);
    case '!=':
      return !isEqual(left, right, evaluation);
    case '<':
      return isLess(left, right, evaluation);
    case '>':
      return isLess(right, left, evaluation);
    case '<=':
      return isLess(left, right, evaluation) || isEqual(left, right, evaluation);
    case '>=':
      return isLess(right, left, evaluation) || isEqual(left, right, evaluation);
  }
};

const isEqual = (left: Operand, right: Operand, evaluation: Evaluation): boolean => {
  visit(evaluation, 1);
  if (typeof left === 'string') {
    visitText(evaluation, left);
    return left === right;
  }
  if (typeof left !== 'object' || left === null) return left === right;
  if (typeof right !== 'object' || right === null) return false;
  if (Array.isArray(left))
    return (
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((item, at) => isEqual(item, right[at], evaluation))
    );
  if (Array.isArray(right)) return false;
  const names = Object.keys(left);
  const others = Object.keys(right);
  visit(evaluation, names.length + others.length);
  return (
    names.length === others.length &&
    names.every((name) => Object.hasOwn(right, name) && isEqual(left[name], right[name], evaluation))
  );
};

/** The rank of a code unit in the order of code points: surrogates come last. */
const rankOf = (unit: number): number => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit);

const isLess = (left: Operand, right: Operand, evaluation: Evaluation): boolean => {
  if (typeof left === 'number' && typeof right === 'number') return left < right;
  if (typeof left !== 'string' || typeof right !== 'string') return false;
  const length = Math.min(left.length, right.length);
  visit(evaluation, length / 4);
  for (let at = 0; at < length; at += 1) {
    const difference = rankOf(left.charCodeAt(at)) - rankOf(right.charCodeAt(at));
    if (difference !== 0) return difference < 0;
  }
  return left.length < right.length;
};

// --- The filter ---

/** Names and indexes only, in dots and brackets. */
const plainPath = /^\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8})\])*$/;

const plainSteps = (path: string): (string | number)[] =>
  Array.from(path.matchAll(/\.([A-Za-z0-9_]+)|\[([0-9]+)\]/g), ([, name, index]) => name ?? Number(index));

/** All nodes that a path finds. @throws JsonPathError for an invalid path; ExpressionError for too much work. */
export const queryJson = (value: Json, path: string, meter: Meter): Json[] => {
  spend(meter, WORK.path + path.length * WORK.pathCharacter);
  return follow(value, parseJsonPath(path), { root: value, meter });
};

/** The steps of a query that names one place (RFC 9535 section 2.3.5.1); undefined for another. */
const singularSteps = (segments: readonly Segment[]): Steps | undefined => {
  const steps: (string | number)[] = [];
  for (const { descends, selectors } of segments) {
    const [only] = selectors;
    if (descends || selectors.length !== 1 || !only) return undefined;
    if (only.kind === 'name') steps.push(only.name);
    else if (only.kind === 'index' && only.index >= 0) steps.push(only.index);
    else return undefined;
  }
  return steps;
};

/** The steps of a path that names one place; undefined for another path, and for a text that is none. */
export const stepsOfPath = (path: string): Steps | undefined => {
  try {
    return plainPath.test(path) ? plainSteps(path) : singularSteps(parseJsonPath(path));
  } catch (error) {
    if (error instanceof JsonPathError) return undefined;
    throw error;
  }
};

/** RFC 9535. @returns Absent if the path finds no node; null for one that the type has and this value lacks. */
export const json = (value: Json, call: Call): Json | Absent => {
  const path = textArgument(call, 0);
  if (path.length > JSON_PATH_LENGTH_MAX)
    throw badArgument(call, `a path of at most ${JSON_PATH_LENGTH_MAX} characters`);
  const valueOfSteps = (steps: Steps) =>
    findSteps({ value, what: 'the token', root: '$', known: call.known ?? [] }, steps) ?? null;
  // Nearly every path is this simple and needs no parser.
  if (plainPath.test(path)) return valueOfSteps(plainSteps(path));
  let found: Json[];
  try {
    found = queryJson(value, path, call.meter);
  } catch (error) {
    if (!(error instanceof JsonPathError)) throw error;
    const isPattern = error.reason === 'pattern';
    if (isPattern) throw badArgument(call, 'a JSONPath without match() and search()');
    const meant = /^[A-Za-z_][\w.]*$/.test(path) ? `, such as \`$.${clipName(path)}\`` : '';
    throw badArgument(call, `a valid JSONPath (RFC 9535)${meant}`);
  }
  if (found.length > 1) throw new ExpressionError('not_one_value', 'must find one value with the filter json');
  if (found.length === 1) return found[0] as Json;
  const steps = singularSteps(parseJsonPath(path));
  return steps ? valueOfSteps(steps) : absentAt(path);
};
