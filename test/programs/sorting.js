// Sorts and groups payments, stable and by several keys.
// request: {"args":{"payments":[{"id":3,"to":"b","amount":10},{"id":1,"to":"a","amount":5},{"id":2,"to":"b","amount":5},{"id":4,"to":"a","amount":10.5},{"id":10,"to":"c","amount":0}]}}
const by =
  (...keys) =>
  (a, b) => {
    for (const key of keys) {
      if (a[key] < b[key]) return -1;
      if (a[key] > b[key]) return 1;
    }
    return 0;
  };

module.exports = ({ args: { payments } }) => {
  const groups = payments.reduce((all, each) => {
    (all[each.to] ||= []).push(each.id);
    return all;
  }, {});
  const totals = new Map();
  for (const { to, amount } of payments) totals.set(to, (totals.get(to) ?? 0) + amount);
  return {
    raw: {
      sorted: [...payments].sort(by('amount', 'id')).map(({ id }) => id),
      stable: [...payments].sort(by('to')).map(({ id }) => id),
      byText: payments.map(({ id }) => id).sort(),
      reversed: payments.map(({ id }) => id).reverse(),
      groups,
      totals: Object.fromEntries(totals),
      ranked: [...totals].sort(([, a], [, b]) => b - a),
      found: [payments.findLast?.(({ to }) => to === 'b')?.id, payments.at(-1).id],
      flat: [
        [1, [2]],
        [3, [[4]]],
      ].flat(Infinity),
      holes: [3, undefined, 1, , 2].sort(),
      sum: payments.reduce((sum, { amount }) => sum + amount, 0),
      sets: [...new Set([1, 1, '1', NaN, NaN])].length,
    },
  };
};
