// Computes with days, months and zones.
// request: {"args":{"at":"2024-02-29T12:34:56.789Z"}}
module.exports = ({ args }) => {
  const at = new Date(args.at);
  const plus = (days) => new Date(at.getTime() + days * 86400000);
  const months = (n) => {
    const moved = new Date(at);
    const day = moved.getUTCDate();
    moved.setUTCDate(1);
    moved.setUTCMonth(moved.getUTCMonth() + n);
    moved.setUTCDate(
      Math.min(day, new Date(Date.UTC(moved.getUTCFullYear(), moved.getUTCMonth() + 1, 0)).getUTCDate()),
    );
    return moved;
  };
  return {
    raw: {
      iso: at.toISOString(),
      json: { at },
      text: [String(at), at.toUTCString(), at.toDateString(), at.toTimeString()],
      local: [at.getHours(), at.getTimezoneOffset(), new Date(2024, 0, 1).getTime()],
      plus: [plus(1), plus(-60), plus(366)],
      months: [months(1), months(12), months(-1)],
      parsed: ['2024-01-01', '2024-01-01T00:00', 'Jan 5, 2024', '01/02/2024 10:00 GMT+0200', 'nope'].map((text) =>
        Date.parse(text),
      ),
      week: new Date(Date.UTC(2024, 11, 30)).getUTCDay(),
      invalid: [String(new Date(NaN)), JSON.stringify(new Date(NaN)), isNaN(new Date('x'))],
      difference: new Date('2024-03-10') - at,
    },
  };
};
