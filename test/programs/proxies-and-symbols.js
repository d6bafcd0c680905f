// A configuration object with defaults through a Proxy, Reflect and symbols.
// request: {"args":{"timeout":5}}
module.exports = ({ args }) => {
  const log = [];
  const defaults = { timeout: 30, retries: 2 };
  const settings = new Proxy(args, {
    get: (target, key, self) => (
      log.push(String(key)),
      Reflect.has(target, key) ? Reflect.get(target, key, self) : defaults[key]
    ),
    has: (target, key) => key in target || key in defaults,
    set: () => false,
    ownKeys: (target) => [...new Set([...Reflect.ownKeys(target), ...Reflect.ownKeys(defaults)])],
    getOwnPropertyDescriptor: (target, key) => ({
      value: target[key] ?? defaults[key],
      enumerable: true,
      configurable: true,
    }),
  });
  const read = [settings.timeout, settings.retries, settings.none, 'retries' in settings];
  settings.timeout = 1;
  let strict;
  try {
    (function () {
      'use strict';
      settings.timeout = 1;
    })();
  } catch (error) {
    strict = error.message;
  }
  const money = {
    [Symbol.toPrimitive]: (hint) => (hint === 'string' ? '12.50 EUR' : 1250),
    get [Symbol.toStringTag]() {
      return 'Money';
    },
  };
  const weak = new WeakMap([[money, 'known']]);
  return {
    raw: {
      read,
      log,
      strict,
      keys: Object.keys(settings),
      spread: { ...settings },
      money: [`${money}`, money + 1, Object.prototype.toString.call(money)],
      weak: [weak.get(money), weak.has({})],
      ref: new WeakRef(money).deref() === money,
    },
  };
};
