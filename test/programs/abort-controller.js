// Ends work by signals, and tells why.
// request: {"args":{}}
const { setTimeout: sleep } = require('timers/promises');

module.exports = async () => {
  const seen = [];
  const controller = new AbortController();
  const { signal } = controller;
  signal.addEventListener('abort', (event) => seen.push(event.type, event.target === signal), { once: true });
  signal.onabort = () => seen.push('handler');
  const waiting = sleep(10000, 'late', { signal }).catch((error) => [error.name, error.code, error.message]);
  seen.push(signal.aborted);
  controller.abort();
  controller.abort('again');
  seen.push(signal.aborted, signal.reason.name, signal.reason.message, signal.reason.code);
  const why = await waiting;
  const given = AbortSignal.abort(new TypeError('mine'));
  let thrown;
  try {
    given.throwIfAborted();
  } catch (error) {
    thrown = `${error.name}: ${error.message}`;
  }
  const timeout = AbortSignal.timeout(5);
  await sleep(40);
  const any = AbortSignal.any([new AbortController().signal, given]);
  return { raw: { seen, why, thrown, timeout: timeout.reason.name, any: [any.aborted, any.reason === given.reason] } };
};
