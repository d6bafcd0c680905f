// The order in which microtasks, ticks, immediates and timers come.
// request: {"args":{}}
module.exports = async () => {
  const order = [];
  const done = new Promise((resolve) => {
    setTimeout(() => {
      order.push('timeout 1');
      process.nextTick(() => order.push('tick in timeout'));
      Promise.resolve().then(() => order.push('promise in timeout'));
    }, 1);
    setTimeout(() => order.push('timeout 15'), 15);
    setTimeout(() => resolve(), 40);
  });
  queueMicrotask(() => order.push('microtask'));
  Promise.resolve()
    .then(() => order.push('promise 1'))
    .then(() => order.push('promise 2'));
  process.nextTick((a, b) => order.push(`tick ${a}${b}`), 'x', 'y');
  order.push('sync');
  const cancelled = setTimeout(() => order.push('never'), 5);
  clearTimeout(cancelled);
  clearTimeout(undefined);
  let count = 0;
  const every = setInterval(() => {
    if (++count === 3) clearInterval(every);
  }, 2);
  await done;
  await new Promise((resolve) => setImmediate(resolve));
  return {
    raw: {
      order,
      count,
      kinds: [typeof cancelled, typeof cancelled.ref, cancelled.hasRef(), typeof every[Symbol.toPrimitive]()],
    },
  };
};
