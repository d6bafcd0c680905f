// Shows amounts, dates and lists for people in several places.
// request: {"args":{"cents":123456789,"at":"2026-02-28T23:30:00Z"}}
module.exports = ({ args }) => {
  const money = (locale, currency) =>
    new Intl.NumberFormat(locale, { style: 'currency', currency }).format(args.cents / 100);
  const at = new Date(args.at);
  const when = (locale, timeZone) =>
    new Intl.DateTimeFormat(locale, { dateStyle: 'full', timeStyle: 'short', timeZone }).format(at);
  return {
    raw: {
      money: [money('en-US', 'USD'), money('de-DE', 'EUR'), money('ja-JP', 'JPY'), money('hi-IN', 'INR')],
      when: [when('en-GB', 'UTC'), when('de-DE', 'Europe/Berlin'), when('en-US', 'America/New_York')],
      parts: new Intl.DateTimeFormat('en-US', {
        timeZone: 'Asia/Tokyo',
        year: 'numeric',
        month: '2-digit',
        day: '2-digit',
      }).formatToParts(at),
      list: new Intl.ListFormat('en', { type: 'conjunction' }).format(['Visa', 'Amex', 'JCB']),
      plural: [0, 1, 2, 3, 22].map((n) => new Intl.PluralRules('en', { type: 'ordinal' }).select(n)),
      sorted: ['z', 'ä', 'a', 'Z', 'é'].sort(new Intl.Collator('de').compare),
      percent: (0.256).toLocaleString('fr-FR', { style: 'percent', minimumFractionDigits: 1 }),
      compact: new Intl.NumberFormat('en', { notation: 'compact' }).format(1234567),
      plain: [(1234567.891).toLocaleString(), at.toLocaleDateString('en-US'), 'I'.toLocaleLowerCase('tr')],
      relative: new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(-1, 'day'),
    },
  };
};
