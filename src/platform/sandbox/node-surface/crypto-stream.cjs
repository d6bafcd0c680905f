// What hashes, ciphers and signatures inherit: the methods of a stream. Most code uses none of them, and the stream is made when
// the first is used.
'use strict';

const METHODS =
  'addListener destroy emit end eventNames isPaused listenerCount listeners off on once pause pipe prependListener push ' +
  'read removeAllListeners removeListener resume setEncoding unpipe write';

const PROPERTIES =
  '_readableState _writableState destroyed readable readableEnded readableFlowing readableHighWaterMark writable ' +
  'writableEnded writableFinished writableHighWaterMark writableLength writableNeedDrain closed errored';

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

class StreamLike {
  [Symbol.asyncIterator]() {
    return streamOf(this)[Symbol.asyncIterator]();
  }
}

const define = (name, descriptor) =>
  Object.defineProperty(StreamLike.prototype, name, { configurable: true, ...descriptor });

const methodOf = (name) =>
  function (...args) {
    const stream = streamOf(this);
    const result = stream[name](...args);
    return result === stream ? this : result;
  };

for (const name of METHODS.split(' ')) define(name, { value: methodOf(name), writable: true });

for (const name of PROPERTIES.split(' '))
  define(name, {
    get() {
      return streamOf(this)[name];
    },
  });

exports.StreamLike = StreamLike;
