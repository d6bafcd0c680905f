// The page of one frame: a label, an input and a message. It accepts one message of the page, which brings a port.
import {
  CODE_TYPE,
  type FieldName,
  type FieldProblem,
  fieldsOfForm,
  type FieldState,
  type FromFrame,
  type Hello,
  type Look,
  type ToFrame,
} from '../src/protocol.ts';
import { brandOf } from './brands.ts';
import { createToken } from './create-token.ts';
import { kindOf } from './kinds.ts';
import { applyStyle } from './look.ts';
import { saveCode } from './save-code.ts';
import { type Sibling, siblingsOf } from './siblings.ts';
import { rewrite, skipSeparators } from './typing.ts';

/** `/fields/<version>/frame/<session>/<field>` */
const [, , , , session = '', name = ''] = location.pathname.split('/');
const field = name as FieldName;
/** The server writes the origins of the session, the public id of its key, whether it has ended, and the length of its card's code. */
const { origins = '', key: public_id = '', expired, codeLength } = document.documentElement.dataset;

const isHello = (data: Partial<Hello> | null): data is Hello =>
  data?.strongroom === 'fields' &&
  typeof data.mount === 'string' &&
  typeof data.type === 'string' &&
  fieldsOfForm(data.type).includes(field) &&
  !!data.look;

const listen = ({ source, origin, data, ports }: MessageEvent<Hello>): void => {
  const [port] = ports;
  if (source !== parent || !origins.split(' ').includes(origin) || !isHello(data) || !port) return;
  removeEventListener('message', listen);
  start(data, port);
};
addEventListener('message', listen);

const make = <Name extends keyof HTMLElementTagNameMap>(
  tag: Name,
  attributes: Record<string, string>,
): HTMLElementTagNameMap[Name] => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

const start = ({ mount, type, session_key, look: firstLook }: Hello, port: MessagePort): void => {
  const kind = kindOf(field, type);
  const isNumber = kind.autocomplete === 'cc-number';
  const isCode = type === CODE_TYPE;
  /** Code length of a stored card, which has no frame of its number beside this one. */
  const ofCard = isCode && codeLength !== undefined ? { cvc: Number(codeLength) } : undefined;
  const label = make('label', { for: 'input' });
  const message = make('p', { id: 'message', role: 'alert' });
  const input = make('input', {
    id: 'input',
    name: field,
    autocomplete: kind.autocomplete,
    inputmode: kind.inputmode,
    'aria-required': 'true',
    'aria-describedby': 'message',
    spellcheck: 'false',
    autocapitalize: 'off',
    autocorrect: 'off',
  });
  const form = make('form', { novalidate: '' });
  form.append(label, input, message);
  document.body.replaceChildren(form);

  let look: Look = firstLook;
  /** The person has left the field, or tried to send it: only then its problem is shown. */
  let isTouched = false;
  let isFocused = false;
  let told = '';

  const tell = (sent: FromFrame): void => port.postMessage(sent);

  const problemOf = (): FieldProblem | undefined =>
    input.value.trim() === ''
      ? 'required'
      : kind.problemOf(input.value, ofCard ?? siblingsOf(own).find(({ brand }) => brand)?.brand);

  /** Shows the state, and tells the page if it differs: a message for each digit would tell how many there are. */
  const show = (): void => {
    const problem = problemOf();
    const shown = isTouched ? problem : undefined;
    input.toggleAttribute('data-complete', !problem);
    input.setAttribute('aria-invalid', String(shown !== undefined));
    message.textContent = shown ? (look.labels[`${field}.${shown}`] ?? '') : '';
    const state: FieldState = {
      empty: input.value === '',
      complete: !problem,
      focused: isFocused,
      problem: shown,
      brand: own.brand?.name,
    };
    const text = JSON.stringify(state);
    if (text === told) return;
    told = text;
    tell({ kind: 'state', state });
  };

  const own: Sibling = {
    session,
    mount,
    type,
    field,
    check: () => {
      isTouched = true;
      show();
      return problemOf();
    },
    data: () => kind.dataOf(input.value),
    clear: () => {
      input.value = '';
      isTouched = false;
      noteBrand();
      show();
    },
    brand: undefined,
    show,
  };
  window.strongroomFields = own;

  /** The length of a security code depends on the brand. */
  const noteBrand = (): void => {
    if (!isNumber) return;
    const brand = brandOf(input.value.replace(/\D/g, ''));
    if (brand === own.brand) return;
    own.brand = brand;
    for (const sibling of siblingsOf(own)) if (sibling !== own) sibling.show();
  };

  const wear = (changed: Look): void => {
    look = changed;
    document.documentElement.lang = look.locale ?? 'en';
    label.textContent = look.labels[field] ?? field;
    label.classList.toggle('hidden', look.hideLabels === true);
    input.placeholder = look.labels[`${field}.placeholder`] ?? '';
    applyStyle(look.style ?? {});
    show();
  };

  input.addEventListener('input', () => {
    rewrite(input, kind.format);
    noteBrand();
    show();
  });
  input.addEventListener('focus', () => {
    isFocused = true;
    show();
  });
  input.addEventListener('blur', () => {
    isFocused = false;
    isTouched ||= input.value !== '';
    show();
  });
  if (isNumber) skipSeparators(input);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    tell({ kind: 'submit' });
  });
  new ResizeObserver(() => tell({ kind: 'height', px: form.offsetHeight })).observe(form);

  const hear = async (asked: ToFrame): Promise<void> => {
    if (asked.kind === 'look') wear(asked.look);
    else if (asked.kind === 'focus') {
      // An input that was the last one of its document would get the keyboard, but no event.
      input.blur();
      input.focus();
    } else if (asked.kind === 'clear') own.clear();
    else if (asked.kind === 'tokenize' && session_key !== undefined) {
      const { fields, metadata } = asked;
      const ours = { id: session, public_id };
      tell(
        await (isCode
          ? saveCode(own, ours, session_key)
          : createToken(own, ours, fields, { session_key, metadata, brand: own.brand?.name })),
      );
    }
  };
  port.addEventListener('message', ({ data }: MessageEvent<ToFrame>) => void hear(data));
  port.start();
  tell({ kind: 'ready' });
  wear(look);
  if (expired !== undefined) tell({ kind: 'failed', code: 'session_expired' });
};
