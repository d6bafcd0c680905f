// An account with private state, statics, getters and brand checks.
// request: {"args":{"moves":[100,-30,-500,20]}}
class Account {
  static #count = 0;
  #balance = 0;
  #log = [];
  static {
    Account.currency = 'EUR';
  }

  constructor(owner) {
    this.owner = owner;
    Account.#count++;
  }

  #note(kind, amount) {
    this.#log.push(`${kind}:${amount}`);
  }

  get balance() {
    return this.#balance;
  }

  move(amount) {
    if (this.#balance + amount < 0) {
      this.#note('refused', amount);
      return false;
    }
    this.#balance += amount;
    this.#note('moved', amount);
    return true;
  }

  static isAccount(value) {
    return typeof value === 'object' && value !== null && #balance in value;
  }

  static get count() {
    return Account.#count;
  }

  toJSON() {
    return { owner: this.owner, balance: this.#balance, log: this.#log, currency: Account.currency };
  }
}

class Saving extends Account {
  #rate = 0.02;
  interest() {
    return Math.round(this.balance * this.#rate * 100) / 100;
  }
}

module.exports = ({ args }) => {
  const account = new Saving('Zoë');
  const moved = args.moves.map((amount) => account.move(amount));
  let fault;
  try {
    Account.prototype.move.call({}, 1);
  } catch (error) {
    fault = `${error.name}: ${error.message}`;
  }
  return {
    raw: {
      account,
      moved,
      interest: account.interest(),
      count: Account.count,
      is: [Account.isAccount(account), Account.isAccount({})],
      fault,
    },
  };
};
