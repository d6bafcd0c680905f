// Draws a QR code as inline SVG.
import { encode } from 'uqr';
import { html, type Html } from './html.ts';

/** Pixels of a module: a dot of the code. */
const MODULE_PX = 4;
/** Light modules around the code, so that cameras find it (ISO 18004: four). */
const BORDER = 4;

/** Dark on light, also on a dark page. @param label for people who do not see it. */
export const qrCode = (text: string, label: string): Html => {
  const { size, data } = encode(text, { border: BORDER });
  const dots = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : [])));
  return html`<svg role="img" aria-label="${label}" width="${size * MODULE_PX}" height="${size * MODULE_PX}" viewBox="0 0 ${size} ${size}" shape-rendering="crispEdges"><rect width="${size}" height="${size}" fill="#fff"/><path fill="#000" d="${dots.join('')}"/></svg>`;
};
