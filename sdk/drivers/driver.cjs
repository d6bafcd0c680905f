// Lets a test drive the client for Node: reads commands as lines of JSON, writes what came of each. Loaded by node.mjs and node.cjs.
const { createInterface } = require('node:readline');

/** In ASCII: readline takes some characters of Unicode for line ends. */
const toLine = (value) =>
  JSON.stringify(value).replaceAll(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** What JSON cannot say is written as an object with one key that begins with $. */
const decode = (value, sdk) => {
  if (Array.isArray(value)) return value.map((item) => decode(item, sdk));
  if (typeof value !== 'object' || value === null) return value;
  if (value.$big !== undefined) return BigInt(value.$big);
  if (value.$nan) return Number.NaN;
  if (value.$ref) {
    const { id, path, filters = [] } = value.$ref;
    const made = path ? sdk.ref(id).path(...path) : sdk.ref(id);
    return filters.reduce((expression, [name, ...args]) => expression.filter(name, ...args), made);
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decode(item, sdk)]));
};

const describe = (error, sdk) => {
  if (!(error instanceof sdk.StrongroomError))
    return { kind: error.name === 'AbortError' ? 'aborted' : error.name, message: error.message };
  const { code, status, errors, codes, traceId, attempts, message } = error;
  return { kind: 'StrongroomError', code, status, errors, codes, trace_id: traceId, attempts, message };
};

/** The first request goes to another address, the others as they are asked. */
const misdirect = (firstUrl) => {
  let isFirst = true;
  return (url, init) => {
    const target = isFirst ? firstUrl : url;
    isFirst = false;
    return fetch(target, init);
  };
};

exports.run = (sdk) => {
  let vault;
  let waits = [];
  let elapsed = 0;
  // Pauses cost a test nothing: the clock goes on by them.
  const clock = {
    now: () => performance.now() + elapsed,
    sleep: async (ms, signal) => {
      waits.push(ms);
      elapsed += ms;
      if (signal?.aborted) throw signal.reason;
    },
  };

  const call = async ({ call, args, options, take, abortAfterMs }) => {
    const [resource, method] = call.split('.');
    const decoded = args.map((item) => decode(item, sdk));
    const aborting = abortAfterMs === undefined ? {} : { signal: new AbortController() };
    if (aborting.signal) {
      const controller = aborting.signal;
      setTimeout(() => controller.abort(), abortAfterMs);
      aborting.signal = controller.signal;
    }
    const more = { ...options, ...aborting };
    if (call === 'proxy.fetch') {
      const [url, init] = decoded;
      const response = await vault.proxy.fetch(url, { ...init, ...more });
      return { status: response.status, text: await response.text() };
    }
    const given = Object.keys(more).length > 0 ? [...decoded, more] : decoded;
    if (take === undefined) return vault[resource][method](...given);
    const items = [];
    for await (const item of vault[resource][method](...given)) {
      items.push(item.id);
      if (items.length === take) break;
    }
    return items;
  };

  const answer = async (command) => {
    waits = [];
    if (command.client) {
      const { realClock, firstUrl, ...options } = command.client;
      const changed = firstUrl ? { fetch: misdirect(firstUrl) } : {};
      vault = new sdk.Strongroom({ ...options, ...changed, ...(!realClock && { clock }) });
    }
    try {
      return { value: (await call(command)) ?? null, waits };
    } catch (error) {
      return { error: describe(error, sdk), waits };
    }
  };

  void (async () => {
    for await (const line of createInterface({ input: process.stdin }))
      process.stdout.write(`${toLine(await answer(JSON.parse(line)))}\n`);
  })();
};
