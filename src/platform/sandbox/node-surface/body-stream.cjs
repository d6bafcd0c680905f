// The stream of a body that is in memory already: as much of ReadableStream as readers of an answer use.
'use strict';

class ReadableStream {
  #chunks;
  #isLocked = false;
  #onRead;

  constructor(chunks, onRead) {
    this.#chunks = chunks;
    this.#onRead = onRead;
  }

  get locked() {
    return this.#isLocked;
  }

  getReader() {
    if (this.#isLocked) throw new TypeError('Invalid state: ReadableStream is locked');
    this.#isLocked = true;
    return {
      read: async () => this.#next(),
      cancel: async () => {
        this.#chunks = [];
      },
      releaseLock: () => {
        this.#isLocked = false;
      },
      closed: Promise.resolve(),
    };
  }

  #next() {
    this.#onRead?.();
    const value = this.#chunks.shift();
    return value === undefined ? { value: undefined, done: true } : { value, done: false };
  }

  async cancel() {
    this.#chunks = [];
  }

  async *[Symbol.asyncIterator]() {
    const reader = this.getReader();
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  }

  get [Symbol.toStringTag]() {
    return 'ReadableStream';
  }
}

exports.ReadableStream = ReadableStream;
exports.streamOf = (bytes, onRead) => new ReadableStream(bytes.length === 0 ? [] : [new Uint8Array(bytes)], onRead);
