// Code of ten years ago: sloppy mode, prototypes, arguments and labels.
// request: {"args":{"list":[3,1,2]}}
function Stack() {
  if (!(this instanceof Stack)) return new Stack();
  this.items = [];
}
Stack.prototype = {
  constructor: Stack,
  push: function () {
    for (var i = 0; i < arguments.length; i++) this.items.push(arguments[i]);
    return this;
  },
  pop: function () {
    return this.items.pop();
  },
};

function sum() {
  return Array.prototype.slice.call(arguments).reduce(function (a, b) {
    return a + b;
  }, 0);
}

function alias(a) {
  arguments[0] = 'changed';
  return a;
}

module.exports = function (req, callback) {
  var self = this;
  var log = [];
  outer: for (var i = 0; i < 3; i++) {
    for (var j = 0; j < 3; j++) {
      if (j === 2) continue outer;
      if (i === 2) break outer;
      log.push(i + ':' + j);
    }
  }
  implicit = 5;
  with ({ inside: 'with' }) log.push(inside);
  switch (req.args.list.length) {
    case 3:
      log.push('three');
    case 4:
      log.push('through');
      break;
    default:
      log.push('never');
  }
  return {
    raw: {
      log: log,
      stack: Stack().push.apply(Stack(), req.args.list).pop(),
      sum: sum.apply(null, req.args.list),
      alias: alias('given'),
      octal: 010,
      implicit: implicit,
      hoisted: typeof later,
      self: typeof self,
      callback: typeof callback,
      escaped: escape('ü x') + unescape('%FC'),
      substr: 'abcdef'.substr(-3, 2),
      dated: new Date(0).getYear(),
    },
  };
  function later() {}
};
