// Compiles code in the sandbox before it is stored, and reports line and column of errors without quoting the code.
import type { Caller } from '../access/caller.ts';
import type { CodeContext } from './context.ts';
import { failure, fieldErrors, unavailable } from '../../platform/base/errors.ts';
import { moduleNames } from '../../platform/sandbox/protocol/module-names.ts';
import type { RunFault } from '../../platform/sandbox/protocol/sandbox.ts';
import { nearestName } from '../../platform/base/unknown-names.ts';
import { busy, noWall } from './code-errors.ts';

/**
 * Beginnings of V8's messages on syntax errors. Other messages, and what follows these, are not repeated: they may quote the
 * code.
 */
const syntaxKinds = [
  'Unexpected token',
  'Unexpected identifier',
  'Unexpected end of input',
  'Unexpected string',
  'Unexpected number',
  'Unexpected template string',
  'Unexpected reserved word',
  'Unexpected strict mode reserved word',
  'Unexpected eval or arguments in strict mode',
  'Invalid or unexpected token',
  'Invalid regular expression',
  'Invalid left-hand side',
  'Invalid destructuring assignment target',
  'Invalid Unicode escape sequence',
  'Invalid hexadecimal escape sequence',
  'Unterminated template literal',
  'Unterminated string',
  'Missing initializer',
  'Illegal return statement',
  'Illegal break statement',
  'Illegal continue statement',
  'await is only valid in async functions',
  'Cannot use import statement outside a module',
  "Cannot use 'import.meta' outside a module",
  'missing ) after argument list',
];

const placeText = ({ line, column }: { line?: number | undefined; column?: number | undefined }): string =>
  line === undefined ? '' : `: line ${line}${column === undefined ? '' : `, column ${column}`}`;

const describeSyntax = ({ message, line, column }: Extract<RunFault, { code: 'SYNTAX' }>): string => {
  const words = message.replace(/^SyntaxError: /, '');
  const kind = syntaxKinds.find((each) => words.startsWith(each));
  return `does not compile${placeText({ line, column })}${kind === undefined ? '' : ` (${kind})`}`;
};

/** What an error for an unknown module adds: the nearest one, and all. The name is not repeated: it is text of the code. */
export const describeModules = ({
  name,
  message,
}: {
  name?: string | undefined;
  message: string;
}): string | undefined => {
  const [, wanted] = /Cannot find module '([^']*)'$/.exec(message) ?? [];
  if (wanted === undefined || name !== 'Error') return undefined;
  const nearest = nearestName(wanted.replace(/^node:/, ''), moduleNames);
  const meant = nearest === undefined ? '' : ` Did you mean ${nearest}?`;
  return `${meant} Modules: ${moduleNames.join(', ')}`;
};

/**
 * The refusal of code that requires an unknown module as it loads, outside of `try`: every invocation would fail. V8 has run the top
 * level, so a guarded, a conditional and a computed `require` count as what they do.
 */
const describeMissingModule = (fault: Extract<RunFault, { code: 'THROWN' }>): string | undefined => {
  const modules = describeModules(fault);
  return modules && `requires a module that does not exist here${placeText(fault)}.${modules}`;
};

/** What code is for, in error messages. */
export type CodePurpose = {
  /** Noun for what the code belongs to, as in "The code of the formula". */
  of: string;
  /** The shortest result that it may return. */
  result: string;
};

/**
 * Why code is refused, or undefined. Code that throws as it loads is accepted, unless a module is missing: in an invocation it may have
 * what else it misses here.
 * @throws too_many_requests or unavailable where the sandbox could not run the code.
 */
const refusalOf = (fault: RunFault, { result }: CodePurpose): string | undefined => {
  switch (fault.code) {
    case 'THROWN':
      return describeMissingModule(fault);
    case 'SDK_ERROR':
    case 'RESPONSE':
      return undefined;
    case 'SYNTAX':
      return describeSyntax(fault);
    case 'NO_FUNCTION':
      return `must export a function: module.exports = async (req) => (${result})`;
    case 'BUSY':
      throw busy(fault);
    case 'NO_WALL':
      throw noWall();
    case 'EXECUTOR_DIED':
    case 'CANCELLED':
      throw unavailable();
    case 'TIMEOUT_WALL':
    case 'TIMEOUT_CPU':
    case 'OUT_OF_MEMORY':
    case 'OUTPUT_TOO_LARGE':
      return 'its top level takes too long or too much memory';
  }
};

/**
 * @param codes each with the path of its property.
 * @throws unprocessable for code that does not compile or exports no function; too_many_requests or unavailable where the sandbox could not run it.
 */
export const checkCode = async (
  ctx: Pick<CodeContext, 'sandbox'>,
  { tenant_id }: Pick<Caller, 'tenant_id'>,
  purpose: CodePurpose,
  codes: readonly (readonly [path: string, code: string])[],
): Promise<void> => {
  const refusals: [path: string, sentence: string][] = [];
  // One after the other: together they could exceed the tenant's share of the sandbox.
  for (const [path, code] of codes) {
    const fault = await ctx.sandbox.check(tenant_id, code);
    const refusal = fault && refusalOf(fault, purpose);
    if (refusal !== undefined) refusals.push([path, refusal]);
  }
  if (refusals.length > 0)
    throw failure('code_not_runnable', `The code of the ${purpose.of} cannot be run.`, {
      fieldErrors: fieldErrors(refusals),
    });
};
