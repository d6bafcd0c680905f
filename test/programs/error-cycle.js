// Returns an object that contains itself.
// request: {"args":{}}
module.exports = async () => {
  const order = { id: 1, lines: [] };
  order.lines.push({ order });
  return order;
};
