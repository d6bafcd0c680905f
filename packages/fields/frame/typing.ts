// Writes typed digits in their form, such as groups of four, and keeps the caret at the same digit.

const countDigits = (text: string): number => text.replace(/\D/g, '').length;

/** After as many digits as were before the caret; at the end where it was at the end. */
const caretIn = (written: string, before: string, after: string): number => {
  if (after === '') return written.length;
  let at = 0;
  for (let digits = countDigits(before); digits > 0 && at < written.length; at += 1)
    if (/\d/.test(written[at] as string)) digits -= 1;
  return at;
};

/** Call after each input. */
export const rewrite = (input: HTMLInputElement, format: (text: string) => string): void => {
  const { value } = input;
  const written = format(value);
  if (written === value) return;
  const caret = input.selectionStart ?? value.length;
  const place = caretIn(written, value.slice(0, caret), value.slice(caret));
  input.value = written;
  // A field that is filled by the browser has no caret to keep.
  if (document.activeElement === input) input.setSelectionRange(place, place);
};

/** Backspace behind a separator, and Delete before one, take the digit beyond it. */
export const skipSeparators = (input: HTMLInputElement): void => {
  input.addEventListener('beforeinput', ({ inputType }) => {
    const { selectionStart: at, selectionEnd: end, value } = input;
    if (at === null || at !== end) return;
    const isSeparator = (index: number): boolean => value[index] === ' ';
    if (inputType === 'deleteContentBackward' && isSeparator(at - 1)) input.setSelectionRange(at - 1, at - 1);
    if (inputType === 'deleteContentForward' && isSeparator(at)) input.setSelectionRange(at + 1, at + 1);
  });
};
