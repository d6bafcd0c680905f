// The web's events, with listeners that are objects, once and prevented.
// request: {"args":{}}
module.exports = () => {
  const target = new EventTarget();
  const log = [];
  const twice = (event) => log.push(['twice', event.type, event.detail]);
  target.addEventListener('pay', twice);
  target.addEventListener('pay', twice);
  target.addEventListener('pay', { handleEvent: (event) => event.preventDefault() });
  target.addEventListener('pay', () => log.push('once'), { once: true });
  const event = new CustomEvent('pay', { cancelable: true, detail: { amount: 1 } });
  log.push(target.dispatchEvent(event), event.defaultPrevented, event.cancelable, event.bubbles);
  target.removeEventListener('pay', twice);
  log.push(target.dispatchEvent(new Event('pay')));
  target.addEventListener('stop', (e) => e.stopImmediatePropagation());
  target.addEventListener('stop', () => log.push('never'));
  target.dispatchEvent(new Event('stop'));
  let fault;
  try {
    target.dispatchEvent({ type: 'pay' });
  } catch (error) {
    fault = [error.name, error.code];
  }
  const exception = new DOMException('gone', 'NotFoundError');
  return {
    raw: {
      log,
      fault,
      exception: [
        exception.name,
        exception.code,
        exception.message,
        exception instanceof Error,
        DOMException.ABORT_ERR,
      ],
    },
  };
};
