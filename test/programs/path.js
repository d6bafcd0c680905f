// Joins and takes apart paths.
// request: {"args":{"paths":["/a/b/../c/./d.tar.gz","x/y//z","..","/","","./q/"]}}
const path = require('path');

module.exports = ({ args: { paths } }) => ({
  raw: {
    each: paths.map((p) => [
      path.normalize(p),
      path.dirname(p),
      path.basename(p),
      path.extname(p),
      path.isAbsolute(p),
      path.parse(p),
    ]),
    joined: path.join('/v1', '../v2', 'cards', './x'),
    resolved: [path.resolve('/a', 'b', '../c'), path.posix.resolve('/x', '/y')],
    relative: path.relative('/data/a/b', '/data/c'),
    base: path.basename('/x/file.json', '.json'),
    formatted: path.format({ dir: '/home', name: 'file', ext: '.txt' }),
    constants: [path.sep, path.delimiter],
    bad: (() => {
      try {
        path.join('a', 1);
      } catch (error) {
        return error.name;
      }
    })(),
  },
});
