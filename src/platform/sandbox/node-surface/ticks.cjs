// When what waits gets its turn: nextTick at the end of a slice, before promises where Node has it so. An error in here
// ends the run.
'use strict';

const { apply } = require('./primordials.cjs');

// Turns of the microtask queue that a tick waits for promises, where it is asked for outside of a slice.
const TURNS = 32;
let queue = [];
let isInSlice = false;
let isDrainComing = false;
let uncaught;

const runGuarded = (callback, args) => {
  try {
    apply(callback, undefined, args);
  } catch (thrown) {
    uncaught(thrown);
  }
};

const drain = () => {
  while (queue.length > 0) {
    const ticked = queue;
    queue = [];
    for (let i = 0; i < ticked.length; i++) runGuarded(ticked[i].callback, ticked[i].args);
  }
};

const drainLater = async () => {
  isDrainComing = true;
  for (let turn = 0; turn < TURNS; turn++) await undefined;
  isDrainComing = false;
  drain();
};

module.exports = {
  __proto__: null,
  onUncaught(listener) {
    uncaught = listener;
  },
  runGuarded,
  nextTick(callback, args) {
    queue[queue.length] = { callback, args };
    if (!isInSlice && !isDrainComing) drainLater();
  },
  async queueMicrotask(callback) {
    await undefined;
    runGuarded(callback, []);
  },
  runSlice(work) {
    isInSlice = true;
    try {
      work();
      drain();
    } finally {
      isInSlice = false;
    }
  },
};
