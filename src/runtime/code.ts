// Code before it is kept: compiled, and its top level run, in the sandbox. Says where it is wrong, and never by the words of
// the code itself. What a formula or a transform is, is not known here.
import type { Caller } from '../access/caller.ts';
import type { Context } from '../context.ts';
import { fieldErrors, unavailable, unprocessable } from '../errors.ts';
import type { RunFault } from '../sandbox/sandbox.ts';
import { busy, noWall } from './code-errors.ts';

/**
 * What is wrong with code that does not compile, by the engine's own words before the author's begin. A message that is
 * none of these is not repeated: it may quote the code.
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

const describeSyntax = ({ message, line, column }: Extract<RunFault, { code: 'SYNTAX' }>): string => {
  const words = message.replace(/^SyntaxError: /, '');
  const kind = syntaxKinds.find((each) => words.startsWith(each));
  const place = line === undefined ? '' : `: line ${line}${column === undefined ? '' : `, column ${column}`}`;
  return `does not compile${place}${kind === undefined ? '' : ` (${kind})`}`;
};

/** What code is for, in the words of its refusal. */
export type CodePurpose = {
  /** As in "The code of the formula". */
  of: string;
  /** What it returns at its shortest. */
  result: string;
};

/**
 * Why code is not kept, or undefined. What it throws as it loads is its invocations' affair: there it may have what it
 * misses here.
 * @throws too_many_requests or unavailable where nothing could be run.
 */
const refusalOf = (fault: RunFault, { result }: CodePurpose): string | undefined => {
  switch (fault.code) {
    case 'THROWN':
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
 * @throws unprocessable for code that does not compile or exports no function; too_many_requests or unavailable where nothing could be run.
 */
export const checkCode = async (
  ctx: Pick<Context, 'sandbox'>,
  { tenant_id }: Pick<Caller, 'tenant_id'>,
  purpose: CodePurpose,
  codes: readonly (readonly [path: string, code: string])[],
): Promise<void> => {
  const refusals: [path: string, sentence: string][] = [];
  // One after the other: together they could be more than a tenant's share.
  for (const [path, code] of codes) {
    const fault = await ctx.sandbox.check(tenant_id, code);
    const refusal = fault && refusalOf(fault, purpose);
    if (refusal !== undefined) refusals.push([path, refusal]);
  }
  if (refusals.length > 0) throw unprocessable(`The code of the ${purpose.of} cannot be run.`, fieldErrors(refusals));
};
