// Looks at errors as code does that catches them.
// request: {"args":{}}
module.exports = async () => {
  const caught = [];
  const attempts = [
    () => null.x,
    () => undefinedName,
    () => JSON.parse('{"a":'),
    () => new Array(-1),
    () => 'x'.repeat(-1),
    () => decodeURIComponent('%'),
    () => BigInt('1.5'),
    () => {
      const c = 1;
      c = 2;
    },
    () => new Function('return ]'),
    () => Symbol() + '',
    () => require('no-such-package'),
    () => (1.5).toFixed(101),
    () => structuredClone(() => {}),
    () => {
      throw { plain: true };
    },
    () => [].reduce((a, b) => a),
    () =>
      new (class A {
        constructor() {
          new.target.x();
        }
      })(),
    () => new Intl.NumberFormat('en', { style: 'currency' }),
  ];
  for (const attempt of attempts) {
    try {
      await attempt();
      caught.push('nothing');
    } catch (error) {
      caught.push([error?.name, error?.message?.split('\n')[0], error?.code, error instanceof Error]);
    }
  }
  const cause = new Error('outer', { cause: new TypeError('inner') });
  const all = new AggregateError([new Error('a'), 'b'], 'many');
  return {
    raw: {
      caught,
      cause: [cause.cause.name, String(cause)],
      all: [all.errors.length, String(all)],
      stack: typeof cause.stack,
    },
  };
};
