// Prints, and asks what the process says that does not depend on the machine.
// request: {"args":{"a":1}}
module.exports = async ({ args }) => {
  console.log('args', args);
  console.error(new Error('only shown').message);
  console.table([{ a: 1 }]);
  console.group('group');
  console.info('%s is %d', 'x', 5);
  console.groupEnd();
  console.assert(true, 'fine');
  const ticks = [];
  await new Promise((resolve) => process.nextTick((value) => resolve(ticks.push(value)), 'tick'));
  const [seconds, nanos] = process.hrtime();
  return {
    raw: {
      ticks,
      kinds: [
        typeof process.env,
        typeof process.version,
        process.platform,
        Number.isInteger(seconds),
        nanos < 1e9,
        typeof process.hrtime.bigint(),
      ],
      memory: Object.keys(process.memoryUsage()).sort(),
      argv: Array.isArray(process.argv),
      globals: [
        typeof globalThis,
        globalThis === global,
        typeof window,
        typeof queueMicrotask,
        typeof performance.now(),
      ],
      tag: Object.prototype.toString.call(process),
    },
  };
};
