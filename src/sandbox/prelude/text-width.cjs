// How many columns a text takes on a terminal.
'use strict';

// Marks and selectors stand in ranges of their own here: nothing combines.
// oxlint-disable-next-line no-misleading-character-class
const INVISIBLE = /[\p{Cc}\p{Mn}\p{Me}\u200B-\u200F\u20D0-\u20FF\uFE00-\uFE0F]|[\u{E0100}-\u{E01EF}]/gu;

const WIDE =
  /[\u1100-\u115F\u2329\u232A\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE10-\uFE19\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|[\u{1F300}-\u{1F64F}\u{1F900}-\u{1F9FF}\u{20000}-\u{3FFFD}]/gu;

// oxlint-disable-next-line no-control-regex
const COLORS = /\u001B\[[\d;]*m/g;

exports.widthOf = (text) => {
  if (/^[\u0020-\u007E]*$/.test(text)) return text.length;
  const shown = text.replace(COLORS, '').normalize('NFC').replace(INVISIBLE, '');
  let width = 0;
  for (const _ of shown) width++;
  return width + (shown.match(WIDE)?.length ?? 0);
};
