// Reads track data and addresses with named groups and look-around.
// request: {"args":{"track":"%B4242424242424242^DOE/JANE^30121010000000000?;4242424242424242=30121010000000000?","text":"Order 12 of 2026-11-21, order 7 of 2025-01-02; Ünïcode_ω"}}
const TRACK = /%B(?<pan>\d{12,19})\^(?<last>[^/^]+)\/(?<first>[^^]+)\^(?<yy>\d\d)(?<mm>\d\d)(?<service>\d{3})/;

module.exports = ({ args: { track, text } }) => {
  const { groups } = TRACK.exec(track);
  const all = [...text.matchAll(/order (?<id>\d+) of (?<date>(\d{4})-(\d\d)-(\d\d))/gi)].map((m) => ({
    ...m.groups,
    at: m.index,
  }));
  const sticky = /\d+/y;
  sticky.lastIndex = 6;
  return {
    raw: {
      groups: { ...groups },
      all,
      swapped: text.replace(/(?<y>\d{4})-(?<m>\d\d)-(?<d>\d\d)/g, '$<d>.$<m>.$<y>'),
      masked: track.replace(/\d(?=\d{4})/g, '*').slice(0, 40),
      behind: text.match(/(?<=of )\d{4}/g),
      unicode: text.match(/\p{Lu}\p{L}+/gu),
      sticky: [sticky.exec(text)?.[0], sticky.lastIndex],
      split: 'a1b22c'.split(/(\d+)/),
      indices: /b(?<x>c)/d.exec('abc').indices.groups.x,
      replaced: 'x-y_z'.replace(/[-_](.)/g, (_, c) => c.toUpperCase()),
      dotall: /a.b/s.test('a\nb'),
    },
  };
};
