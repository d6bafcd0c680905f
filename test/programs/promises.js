// Waits for several things at once, and for what fails among them.
// request: {"args":{"delays":[12,2,7]}}
const wait = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));

async function limited(tasks, size) {
  const results = [];
  let next = 0;
  let active = 0;
  let peak = 0;
  const worker = async () => {
    while (next < tasks.length) {
      const at = next++;
      peak = Math.max(peak, ++active);
      results[at] = await tasks[at]();
      active--;
    }
  };
  await Promise.all(Array.from({ length: size }, worker));
  return { results, peak };
}

module.exports = async ({ args: { delays } }) => {
  const all = await Promise.all(delays.map((ms) => wait(ms, ms)));
  const race = await Promise.race([wait(80, 'slow'), wait(1, 'fast')]);
  const settled = await Promise.allSettled([wait(1, 'ok'), Promise.reject(new Error('no')), 3]);
  const any = await Promise.any([Promise.reject(1), wait(1, 'any')]);
  const none = await Promise.any([Promise.reject(new Error('a'))]).catch((error) => [
    error.name,
    error.message,
    error.errors.length,
  ]);
  const pool = await limited(
    [5, 1, 3, 1, 1].map((ms, i) => () => wait(ms, i)),
    2,
  );
  const final = [];
  await Promise.reject(new Error('x'))
    .finally(() => final.push('finally'))
    .catch(() => final.push('catch'));
  const thenable = await { then: (resolve) => resolve('thenable') };
  return {
    raw: {
      all,
      race,
      settled: settled.map(({ status, value, reason }) => [status, value, reason?.message]),
      any,
      none,
      pool,
      final,
      thenable,
    },
  };
};
