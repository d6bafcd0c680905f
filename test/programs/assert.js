// What assertions say when they fail.
// request: {"args":{}}
const assert = require('assert');

module.exports = async () => {
  const said = [];
  const attempt = (work) => {
    try {
      work();
      said.push('passed');
    } catch (error) {
      said.push([error.name, error.code, error.message, error.operator, error.generatedMessage]);
    }
  };
  attempt(() => assert(true));
  attempt(() => assert.ok(0, 'must be there'));
  attempt(() => assert.equal(1, '1'));
  attempt(() => assert.strictEqual(1, 2));
  attempt(() => assert.equal(1, 2, 'own words'));
  attempt(() => assert.notStrictEqual(1, 1));
  attempt(() => assert.deepStrictEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }));
  attempt(() => assert.deepEqual([1, 2, '3'], [1, 2, 3]));
  attempt(() =>
    assert.throws(() => {
      throw new TypeError('bad');
    }, TypeError),
  );
  attempt(() =>
    assert.throws(
      () => {
        throw new TypeError('bad');
      },
      { name: 'TypeError', message: /ba/ },
    ),
  );
  attempt(() => assert.throws(() => {}));
  attempt(() =>
    assert.doesNotThrow(() => {
      throw new Error('x');
    }),
  );
  attempt(() => assert.match('abc', /b/));
  attempt(() => assert.fail('boom'));
  attempt(() => assert.ifError(null));
  await assert.rejects(Promise.reject(new RangeError('r')), RangeError);
  await assert.rejects(async () => {}, Error).catch((error) => said.push([error.code, error.message]));
  return { raw: said };
};
