// Names of people: normalized, cut, cased and counted.
// request: {"args":{"names":["Zoë","ZOE\u0308","ǅungla","ﬁsh","straße","İstanbul","👩‍👩‍👧","नमस्ते"]}}
module.exports = ({ args: { names } }) => ({
  raw: names.map((name) => ({
    nfc: name.normalize('NFC'),
    nfkd: name.normalize('NFKD').replace(/\p{M}/gu, ''),
    upper: name.toUpperCase(),
    lower: name.toLowerCase(),
    lengths: [
      name.length,
      [...name].length,
      Buffer.byteLength(name),
      [...new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(name)].length,
    ],
    points: [...name].map((char) => char.codePointAt(0).toString(16)),
    padded: name.padStart(10, '*'),
    encoded: encodeURIComponent(name),
    compare: name.localeCompare('straße', 'de', { sensitivity: 'base' }),
  })),
});
