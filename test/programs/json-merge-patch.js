// Applies a merge patch and tells what has changed.
// request: {"args":{"target":{"a":"b","c":{"d":"e","f":"g"},"list":[1,2]},"patch":{"a":"z","c":{"f":null},"list":[3],"new":{"x":null,"y":1}}}}
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

function merge(target, patch) {
  if (!isObject(patch)) return patch;
  const result = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merge(result[key], value);
  }
  return result;
}

const diff = (before, after, path = '') => {
  if (!isObject(before) || !isObject(after)) return JSON.stringify(before) === JSON.stringify(after) ? [] : [path];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => diff(before[key], after[key], `${path}/${key}`));
};

const freeze = (value) =>
  isObject(value) ? Object.freeze(Object.fromEntries(Object.entries(value).map(([k, v]) => [k, freeze(v)]))) : value;

module.exports = ({ args: { target, patch } }) => {
  const before = freeze(target);
  const after = merge(before, patch);
  let sloppy = 'nothing';
  before.a = 'changed?';
  if (before.a === 'b') sloppy = 'ignored';
  return { raw: { after, changed: diff(before, after), frozen: Object.isFrozen(before.c), sloppy } };
};
