// Sensitive shows no value in any form of output.
import { format, inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Sensitive } from './sensitive.ts';

const CANARY = 'canary-4111111111111111';

test.each<[string, (value: Sensitive<unknown>) => string]>([
  ['JSON', (value) => JSON.stringify({ value, list: [value] })],
  ['String()', (value) => String(value)],
  ['a template', (value) => `${value as unknown as string}`],
  ['concatenation', (value) => (value as unknown as string) + ''],
  ['inspect, with everything shown', (value) => inspect({ value }, { showHidden: true, depth: 9, getters: true })],
  ['inspect without the custom printer', (value) => inspect(value, { customInspect: false, showHidden: true })],
  ['format', (value) => format('%s %o %O %j', value, value, value, value)],
  ['its properties', (value) => JSON.stringify([Object.entries(value), Reflect.ownKeys(value), { ...value }])],
  ['an error that carries it', (value) => inspect(new Error('failed', { cause: value }))],
  ['a structured clone', (value) => inspect(structuredClone({ value }), { customInspect: false, showHidden: true })],
])('a sensitive value does not show in %s', (_, print) => {
  expect(print(new Sensitive(CANARY))).not.toContain(CANARY);
  expect(print(new Sensitive({ secret: CANARY }))).not.toContain(CANARY);
});

test('it prints as [sensitive] and opens by reveal()', () => {
  const value = new Sensitive(CANARY);
  expect([JSON.stringify(value), String(value), inspect(value)]).toEqual([
    '"[sensitive]"',
    '[sensitive]',
    '[sensitive]',
  ]);
  expect(value.reveal()).toBe(CANARY);
});
