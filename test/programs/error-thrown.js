// Throws an error of its own class out of a nested call.
// request: {"args":{"amount":-5}}
class PaymentError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = 'PaymentError';
    this.status = 402;
  }
}

const charge = async (amount) => {
  if (amount < 0) throw new PaymentError(`The amount ${amount} is below zero – né?`, { cause: 'input' });
};

module.exports = async ({ args }) => {
  await charge(args.amount);
};
