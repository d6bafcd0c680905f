// Reads a property of what is not there.
// request: {"args":{"card":null}}
module.exports = (req) => {
  const { card } = req.args;
  return card.number.slice(-4);
};
