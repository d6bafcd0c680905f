// Decodes bytes in several encodings, whole and in pieces.
// request: {"args":{"hex":"efbbbf5a6fc3ab20f09f9982"}}
module.exports = ({ args: { hex } }) => {
  const bytes = Buffer.from(hex, 'hex');
  const decoder = new TextDecoder();
  let pieces = '';
  for (const byte of bytes) pieces += decoder.decode(Uint8Array.of(byte), { stream: true });
  pieces += decoder.decode();
  let fatal;
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.of(0xc3, 0x28));
  } catch (error) {
    fatal = error.name;
  }
  let unknown;
  try {
    new TextDecoder('klingon');
  } catch (error) {
    unknown = error.name;
  }
  const target = new Uint8Array(4);
  return {
    raw: {
      whole: new TextDecoder().decode(bytes),
      kept: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes).length,
      pieces,
      broken: new TextDecoder().decode(Uint8Array.of(0x41, 0xff, 0xe2, 0x82, 0x42)),
      utf16: new TextDecoder('utf-16le').decode(Buffer.from('hé🙂', 'utf16le')),
      latin: new TextDecoder('latin1').decode(Uint8Array.of(0x80, 0xe9, 0x99)),
      names: [new TextDecoder('ASCII').encoding, new TextDecoder('utf8').encoding, new TextDecoder().fatal],
      into: [new TextEncoder().encodeInto('aé🙂', target), [...target]],
      encoded: [...new TextEncoder().encode('\ud800é')],
      fatal,
      unknown,
    },
  };
};
