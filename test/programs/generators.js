// Pages through results with generators, sync and async.
// request: {"args":{"total":7,"size":3}}
function* range(from, to) {
  let sent = yield 'start';
  for (let i = from; i < to; i++) sent = yield [i, sent];
  return 'end';
}

async function* pages(total, size) {
  for (let at = 0; at < total; at += size) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    yield Array.from({ length: Math.min(size, total - at) }, (_, i) => at + i);
  }
}

const lazy = {
  *[Symbol.iterator]() {
    try {
      yield* [1, 2, 3];
      yield* 'ab';
    } finally {
      lazy.closed = true;
    }
  },
};

module.exports = async ({ args: { total, size } }) => {
  const steps = [];
  const it = range(0, 2);
  for (let step = it.next(); ; step = it.next(steps.length)) {
    steps.push(step);
    if (step.done) break;
  }
  const all = [];
  for await (const page of pages(total, size)) all.push(page);
  const [first] = lazy;
  const fib = (function* () {
    for (let [a, b] = [0, 1]; ; [a, b] = [b, a + b]) yield a;
  })();
  const taken = [];
  for (const n of fib) {
    if (n > 50) break;
    taken.push(n);
  }
  const thrown = (() => {
    const g = (function* () {
      try {
        yield 1;
      } catch (error) {
        yield `caught ${error}`;
      }
    })();
    g.next();
    return g.throw('x').value;
  })();
  return { raw: { steps, all, first, closed: lazy.closed, spread: [...lazy], taken, after: fib.next(), thrown } };
};
