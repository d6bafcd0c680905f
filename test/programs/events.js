// Emitters: order, once, errors and async waiting.
// request: {"args":{}}
const EventEmitter = require('events');
const { once, on } = EventEmitter;

module.exports = async () => {
  const log = [];
  class Gateway extends EventEmitter {}
  const gateway = new Gateway();
  gateway.on('newListener', (name) => log.push(`new ${String(name)}`));
  gateway.on('paid', (...args) => log.push(['second', ...args]));
  gateway.prependListener('paid', () => log.push('first'));
  gateway.once('paid', function () {
    log.push(this === gateway);
  });
  log.push(gateway.emit('paid', 1, 2), gateway.emit('paid', 3), gateway.emit('unknown'));
  const errors = [];
  for (const thrown of [new RangeError('mine'), 'text', { a: 1 }]) {
    try {
      gateway.emit('error', thrown);
    } catch (error) {
      errors.push(error.name);
    }
  }
  for (const bad of [undefined, 'x']) {
    try {
      gateway.on('x', bad);
    } catch (error) {
      errors.push(error.name);
    }
  }
  setTimeout(() => gateway.emit('ready', 'a', 'b'), 1);
  const ready = await once(gateway, 'ready');
  setTimeout(() => gateway.emit('error', new Error('failed')), 1);
  const failed = await once(gateway, 'never').catch((error) => error.message);
  const heard = [];
  setTimeout(() => [1, 2, 3].forEach((n) => gateway.emit('tick', n)), 1);
  for await (const [n] of on(gateway, 'tick')) {
    heard.push(n);
    if (n === 3) break;
  }
  gateway.off('paid', gateway.listeners('paid')[0]);
  return {
    raw: {
      log,
      errors,
      ready,
      failed,
      heard,
      left: gateway.listenerCount('paid'),
      names: gateway.eventNames(),
      max: EventEmitter.defaultMaxListeners,
    },
  };
};
