// Holds chosen passwords to each rule, with the sentence that names the rule.
import { assert, asyncProperty, pre, uint8Array } from 'fast-check';
import { expect, test } from 'vitest';
import { chosenPasswordProblem } from './chosen-password.ts';

const context = {
  email: 'grace.hopper@example.com',
  names: ['Grace', 'Hopper', 'Al'],
  tenant_names: ['Acme Payments of us', '!'],
};

test.each([
  ['eleven char', 'Choose 12 to 128'],
  ['x'.repeat(129), 'Choose 12 to 128'],
  ['aaaaaaaaaaaa', 'repeats a few characters'],
  ['abcabcabcabc', 'repeats a few characters'],
  ['\u{1f511}'.repeat(12), 'repeats a few characters'],
  ['aaaaaaaaaaaab', 'repeats a few characters'],
  ['abcdefghijkl', 'repeats a few characters'],
  ['123456789012', 'repeats a few characters'],
  ['ZYXWVUT-7654', 'repeats a few characters'],
  ['111222333abc444', 'repeats a few characters'],
  ['blu3fox12345', 'repeats a few characters'],
  ['password1234', 'common passwords'],
  ['PassWord1234', 'common passwords'],
  ['passwordpassword', 'common passwords'],
  ['!2026!dragon!2026!', 'common passwords'],
  ['qwertyuiop123', 'common passwords'],
  ['a strongroom of mine', 'name of this product'],
  ['My $trong-ROOM strong_room', 'name of this product'],
  ['grace.hopper@example.com', 'e-mail address'],
  ['over gracehopper rainbow', 'e-mail address'],
  ['this is Hopper speaking', 'your name'],
  ['pay it with ACME-Payments', 'name of a tenant'],
  ['who pays my payments?', 'name of a tenant'],
  ['over acm\u00e9 ACME rainbow', 'name of a tenant'],
])('%j is refused with a sentence that names the rule', async (password, sentence) => {
  expect(await chosenPasswordProblem(password, context)).toContain(sentence);
});

test.each([
  'correct horse battery',
  'always on the way home',
  'blu3foxy12345',
  `short${'z'.repeat(20)} fox`,
  'Caf\u00e9 au lait \u2460 \u00e0 Paris',
  'kT9#vv02-Lm!xQ',
])('%j may be chosen', async (password) => {
  expect(await chosenPasswordProblem(password, context)).toBeUndefined();
});

/** Names that base64 does not spell by chance. */
const greek = { email: 'ωμέγα@ωμέγα.ωμ', names: ['Ωμέγα'], tenant_names: ['Ωμέγα'] };

test('a password that is drawn from all characters is never refused for more than its length', async () => {
  await assert(
    asyncProperty(uint8Array({ minLength: 18, maxLength: 60 }), async (bytes) => {
      // Random bytes repeat nothing; what fast-check shrinks to does.
      pre(new Set(bytes).size > 9);
      expect(await chosenPasswordProblem(Buffer.from(bytes).toString('base64'), greek)).toBeUndefined();
    }),
  );
});
