// Card numbers with a valid check digit, and the options that import a CSV file of them.

/** A number that passes the check, different for each n. */
export const cardNumber = (n: number): string => {
  const digits = `4${String(n).padStart(14, '0')}`;
  const check = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].find((last) => {
    const all = [...`${digits}${last}`].map(Number).toReversed();
    const sum = all.reduce((total, digit, at) => total + (at % 2 ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit), 0);
    return sum % 10 === 0;
  });
  return `${digits}${check}`;
};

export const asCards = [
  '--format',
  'csv',
  '--id',
  'card_id',
  '--map',
  'number=pan,expiration_month=month,expiration_year=year',
];
