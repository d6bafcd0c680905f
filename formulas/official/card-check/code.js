// Tells what can be told of a card without asking anybody. Never returns more of the number than its BIN and last four.
const { BadRequestError } = require('@svc/reactor-formulas-sdk');

// By beginnings of the number, alone or from one to another; the longest that fits decides.
const brands = {
  visa: '4',
  mastercard: '51-55 2221-2720',
  american_express: '34 37',
  discover: '6011 644-649 65',
  diners_club: '300-305 3095 36 38-39',
  jcb: '3528-3589',
  unionpay: '62 81',
  maestro: '50 56-58 6',
};

const brandOf = (number) => {
  let found = 'unknown';
  let length = 0;
  for (const [brand, ranges] of Object.entries(brands))
    for (const range of ranges.split(' ')) {
      const [from, to = from] = range.split('-');
      const start = number.slice(0, from.length);
      if (from.length > length && start >= from && start <= to) [found, length] = [brand, from.length];
    }
  return found;
};

const passesLuhn = (number) => {
  let sum = 0;
  for (let place = 0; place < number.length; place += 1) {
    const digit = Number(number[number.length - 1 - place]);
    const doubled = place % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
};

// A card is good until the end of its month.
const isExpired = (month, year, at) => at.getTime() >= Date.UTC(year, month, 1);

module.exports = async ({ args }) => {
  const { card, date } = args;
  const number = card.number.replace(/[ -]/g, '');
  if (!/^\d{12,19}$/.test(number)) throw new BadRequestError({ 'card.number': ['must be 12 to 19 digits'] });
  const at = date === undefined || date === null ? new Date() : new Date(date);
  if (Number.isNaN(at.getTime())) throw new BadRequestError({ date: ['must be a date such as 2026-11-20'] });
  const { expiration_month: month, expiration_year: year } = card;
  const hasExpiry = typeof month === 'number' && typeof year === 'number';
  if (hasExpiry && !(Number.isInteger(month) && month >= 1 && month <= 12 && Number.isInteger(year)))
    throw new BadRequestError({ 'card.expiration_month': ['must be a month from 1 to 12 of a whole year'] });
  const expired = hasExpiry ? isExpired(month, year, at) : null;
  const luhn_valid = passesLuhn(number);
  return {
    raw: {
      bin: number.slice(0, 6),
      // Eight digits of a shorter number would leave too little of it unknown.
      bin_8: number.length >= 16 ? number.slice(0, 8) : null,
      last4: number.slice(-4),
      length: number.length,
      brand: brandOf(number),
      luhn_valid,
      expired,
      valid: luhn_valid && expired !== true,
    },
  };
};
