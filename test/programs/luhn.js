// Checks card numbers by their check digit.
// request: {"args":{"numbers":["4242424242424242","4242 4242 4242 4241","378282246310005","6011-1111-1111-1117","0","","79927398713"]}}
const digitsOf = (text) => text.replace(/[\s-]/g, '');

function luhn(number) {
  let sum = 0;
  let double = false;
  for (let i = number.length - 1; i >= 0; i--) {
    let digit = Number(number[i]);
    if (double) {
      digit *= 2;
      if (digit > 9) digit -= 9;
    }
    sum += digit;
    double = !double;
  }
  return number.length > 0 && sum % 10 === 0;
}

module.exports = async function (req) {
  const { numbers } = req.args;
  return { raw: numbers.map((n) => ({ number: digitsOf(n), valid: luhn(digitsOf(n)) })) };
};
