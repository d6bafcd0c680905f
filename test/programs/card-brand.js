// Says the brand of a card, its parts and whether it has expired at a given day.
// request: {"args":{"today":"2026-11-21","cards":[{"number":"4111111111111111","exp":"12/27"},{"number":"5555555555554444","exp":"10/26"},{"number":"2223003122003222","exp":"01/30"},{"number":"371449635398431","exp":"11/26"},{"number":"3530111333300000","exp":"02/25"},{"number":"9999","exp":"13/30"}]}}
const brands = [
  { name: 'visa', test: /^4\d{12}(?:\d{3}){0,2}$/, gaps: [4, 8, 12] },
  { name: 'mastercard', test: /^(5[1-5]|2(22[1-9]|2[3-9]|[3-6]|7[01]|720))\d+$/, gaps: [4, 8, 12] },
  { name: 'amex', test: /^3[47]\d{13}$/, gaps: [4, 10] },
  { name: 'jcb', test: /^35(2[89]|[3-8]\d)\d{12}$/, gaps: [4, 8, 12] },
];

const pretty = (number, gaps) => [...number].map((digit, i) => (gaps.includes(i) ? ' ' + digit : digit)).join('');

exports.default = ({ args }) => {
  const today = new Date(`${args.today}T00:00:00Z`);
  return {
    raw: args.cards.map(({ number, exp }) => {
      const brand = brands.find((b) => b.test.test(number));
      const [month, year] = exp.split('/').map(Number);
      const ok = month >= 1 && month <= 12;
      const end = ok ? new Date(Date.UTC(2000 + year, month, 1)) : null;
      return {
        brand: brand?.name ?? 'unknown',
        bin: number.slice(0, 6),
        last4: number.slice(-4),
        pretty: pretty(number, brand?.gaps ?? []),
        expires: end,
        expired: end ? end <= today : undefined,
      };
    }),
  };
};
