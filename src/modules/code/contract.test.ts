// The contracts of a formula against their vectors: every case has an outcome from a closed list.
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type FieldErrors, invalidInput } from '../../platform/base/errors.ts';
import type { Json } from '../../platform/json/json.ts';
import { castArgs, checkConfiguration } from './contract.ts';
import type { ConfigurationElement, RequestParameter } from './formula-fields.ts';

type Question =
  | { kind: 'cast'; args?: Json; parameters: RequestParameter[] }
  | { kind: 'configuration'; configuration?: Json; elements: ConfigurationElement[] };

type Outcome =
  | { outcome: 'cast'; expect: Json }
  | { outcome: 'fits' }
  | { outcome: 'refused'; errors: Record<string, string[]> };

type Case = { name: string } & Question & Outcome;

const cases = JSON.parse(
  readFileSync(new URL('../../../test/vectors/contract.json', import.meta.url), 'utf8'),
) as readonly Case[];

const sentencesOf = (errors: FieldErrors) => ({ ...invalidInput(errors).errors });

const answer = (question: Question): Outcome => {
  if (question.kind === 'configuration') {
    const errors = checkConfiguration(question.configuration, question.elements);
    return errors ? { outcome: 'refused', errors: sentencesOf(errors) } : { outcome: 'fits' };
  }
  const { args, errors } = castArgs(question.args, question.parameters);
  if (errors) return { outcome: 'refused', errors: sentencesOf(errors) };
  return { outcome: 'cast', expect: args };
};

describe('what a formula declares is checked by its contract', () => {
  test.each(cases)('$kind: $name', (each) => {
    const before = JSON.stringify(each);
    const { outcome, expect: wanted, errors } = { expect: undefined, errors: undefined, ...each };
    expect(answer(each)).toEqual({
      outcome,
      ...(outcome === 'cast' && { expect: wanted }),
      ...(outcome === 'refused' && { errors }),
    });
    // What was given is the caller's, and stays as it was.
    expect(JSON.stringify(each)).toBe(before);
  });

  test('a number that is cast says what its text said', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        const made = castArgs({ n: String(number) }, [{ name: 'n', type: 'number' }]);
        // Zero has one form, and no other number is lost on the way to text and back.
        expect(made).toEqual({ args: { n: number === 0 ? 0 : number } });
      }),
    );
  });

  test('declared args are cast or refused, and undeclared args stay (property)', () => {
    const name = fc.constantFrom('a', 'b', 'a.b', 'a.b.c', 'toString');
    const parameter = fc.record({
      name,
      type: fc.constantFrom('string' as const, 'number' as const, 'boolean' as const),
      optional: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.jsonValue(), fc.array(parameter, { minLength: 1, maxLength: 4 }), (args, parameters) => {
        const made = castArgs({ other: args as Json, a: args as Json }, parameters);
        if (made.errors) expect(made.errors.every(({ path }) => path.startsWith('args.'))).toBe(true);
        else expect((made.args as { other: Json }).other).toBe(args);
      }),
    );
  });
});
