// Checks account numbers by modulus 97 with BigInt.
// request: {"args":{"ibans":["GB82 WEST 1234 5698 7654 32","DE89370400440532013000","DE89370400440532013001","FR1420041010050500013M02606"],"big":"123456789012345678901234567890"}}
const number = (iban) => {
  const text = iban.replace(/\s/g, '').toUpperCase();
  return BigInt([...(text.slice(4) + text.slice(0, 4))].map((c) => parseInt(c, 36)).join(''));
};

module.exports = async ({ args: { ibans, big } }) => {
  const n = BigInt(big);
  return {
    raw: {
      valid: ibans.map((iban) => number(iban) % 97n === 1n),
      power: String(n ** 3n),
      shifted: (n >> 10n).toString(16),
      wrapped: [BigInt.asUintN(64, n).toString(), BigInt.asIntN(8, 200n).toString()],
      divided: [String(n / -7n), String(n % -7n)],
      compared: [2n > 1, 1n == 1, typeof n],
      sorted: [3n, 1, 2n].sort((a, b) => (a < b ? -1 : 1)).map(String),
    },
  };
};
