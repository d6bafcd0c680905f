// Gives hashes, ciphers and signatures the stream's face that Node's have, made when it is first touched.
'use strict';

const METHODS = [
  'addListener',
  'destroy',
  'emit',
  'end',
  'eventNames',
  'isPaused',
  'listenerCount',
  'listeners',
  'off',
  'on',
  'once',
  'pause',
  'pipe',
  'prependListener',
  'push',
  'read',
  'removeAllListeners',
  'removeListener',
  'resume',
  'setEncoding',
  'unpipe',
  'write',
];

const PROPERTIES = [
  '_readableState',
  '_writableState',
  'destroyed',
  'readable',
  'readableEnded',
  'readableFlowing',
  'readableHighWaterMark',
  'writable',
  'writableEnded',
  'writableFinished',
  'writableHighWaterMark',
  'writableLength',
  'writableNeedDrain',
  'closed',
  'errored',
];

const streams = new WeakMap();

const streamOf = (object) => {
  let stream = streams.get(object);
  if (stream === undefined) {
    const { Transform } = require('./stream.cjs');
    stream = new Transform({
      transform(chunk, encoding, callback) {
        try {
          const out = object.update(chunk, encoding);
          callback(null, out === object ? undefined : out);
        } catch (error) {
          callback(error);
        }
      },
      flush(callback) {
        try {
          callback(null, typeof object.digest === 'function' ? object.digest() : object.final?.());
        } catch (error) {
          callback(error);
        }
      },
    });
    streams.set(object, stream);
  }
  return stream;
};

exports.addStreamFace = (Class) => {
  for (const name of METHODS) {
    const method = function (...args) {
      let stream = streamOf(this);
      const result = stream[name](...args);
      return result === stream ? this : result;
    };
    Object.defineProperty(Class.prototype, name, { value: method, writable: true, configurable: true });
  }
  for (const name of PROPERTIES) {
    Object.defineProperty(Class.prototype, name, {
      get() {
        return streamOf(this)[name];
      },
      configurable: true,
    });
  }
  Object.defineProperty(Class.prototype, Symbol.asyncIterator, {
    value() {
      return streamOf(this)[Symbol.asyncIterator]();
    },
    writable: true,
    configurable: true,
  });
};
