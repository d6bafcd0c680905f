// The types and messages of the library: what a page hands to a frame, and what a frame tells the page. No message has a value,
// a length or a part of what a person typed.

/** One input each. */
export type FieldName = 'number' | 'expiry' | 'cvc' | 'name' | 'routing_number' | 'account_number' | 'value';

/** The fields that a form may have. The first one must be mounted, and creates the token. */
export const CARD_FIELDS = ['number', 'expiry', 'cvc', 'name'] as const;
export const BANK_FIELDS = ['account_number', 'routing_number'] as const;
export const TEXT_FIELDS = ['value'] as const;
/** Fields of a form that makes no token: it sends the security code of a stored card again. */
export const CODE_FIELDS = ['cvc'] as const;

/** The type of such a form. */
export const CODE_TYPE = 'cvc';

/** The fields of the form of a type. */
export const fieldsOfForm = (type: string): readonly FieldName[] => {
  if (type === CODE_TYPE) return CODE_FIELDS;
  if (type === 'card') return CARD_FIELDS;
  return type === 'bank' ? BANK_FIELDS : TEXT_FIELDS;
};

/** What is wrong with a field. `past`: a card that has expired. */
export type FieldProblem = 'required' | 'incomplete' | 'invalid' | 'past';

/** Why something failed. The list is closed: a new code comes with a new minor version. */
export type FieldsErrorCode =
  /** A field is not complete, or not right: `errors` names it. Nothing was sent. */
  | 'invalid_fields'
  /** A frame did not load in time, or was removed or moved: by an ad blocker, a policy of the page, or a script. */
  | 'frame_missing'
  /** The session has ended. Create another one and mount again. */
  | 'session_expired'
  /** The session has created all its tokens or had all its tries, may not be used from here (403), or is not the one that the key is of. */
  | 'session_refused'
  /** Too many tokens from this address (429). Try again in a minute. */
  | 'rate_limited'
  /** The vault does not accept the data or the metadata (400). */
  | 'refused'
  /** The vault did not answer. What was typed is still there. */
  | 'network'
  /** The vault failed (5xx). What was typed is still there. */
  | 'server'
  /** The fields are not in the page, or were taken out of it meanwhile. */
  | 'unmounted';

export type Brand =
  | 'visa'
  | 'mastercard'
  | 'amex'
  | 'discover'
  | 'jcb'
  | 'diners'
  | 'unionpay'
  | 'maestro'
  | 'rupay'
  | 'mir'
  | 'elo';

/** What a page learns of one field. */
export type FieldState = {
  empty: boolean;
  complete: boolean;
  focused: boolean;
  /** Only when the person has left the field, or tried to send it. */
  problem?: FieldProblem | undefined;
  /** Brand of the card number. */
  brand?: Brand | undefined;
};

/** A token, as its creator sees it. The mask has what the type shows, such as the last four digits. */
export type Token = { id: string; type: string; mask?: unknown; brand?: Brand | undefined };

/** A stored card whose security code was saved, and when the code is gone. */
export type SavedCode = { id: string; cvc_expires_at: string };

/** CSS properties that a page may set in a frame, in the spelling of scripts. */
export const STYLE_PROPERTIES = [
  'backgroundColor',
  'borderColor',
  'borderRadius',
  'borderStyle',
  'borderWidth',
  'boxShadow',
  'caretColor',
  'color',
  'fontFamily',
  'fontSize',
  'fontStyle',
  'fontVariantNumeric',
  'fontWeight',
  'height',
  'letterSpacing',
  'lineHeight',
  'margin',
  'opacity',
  'outline',
  'outlineOffset',
  'padding',
  'textAlign',
  'textDecoration',
  'textTransform',
  'transition',
] as const;

export type StyleProperties = Partial<Record<(typeof STYLE_PROPERTIES)[number], string>>;

/** Six states of the input, and the two texts beside it. */
export type StylePart = 'base' | 'hover' | 'focus' | 'complete' | 'invalid' | 'placeholder' | 'label' | 'message';

export type FieldsStyle = Partial<Record<StylePart, StyleProperties>>;

/** Texts of the frames: labels by field, such as `number`; `number.invalid` for a problem; `expiry.placeholder`. */
export type FieldsLabels = Partial<Record<FieldName | `${FieldName}.${FieldProblem | 'placeholder'}`, string>>;

export type Look = {
  style?: FieldsStyle | undefined;
  labels: FieldsLabels;
  /** A language tag, such as `de`: the `lang` of the frames. */
  locale?: string | undefined;
  /** Labels are for screen readers only. */
  hideLabels?: boolean | undefined;
};

/** The one message that a frame accepts from the window of the page, with a port. Everything else goes through the port. */
export type Hello = {
  strongroom: 'fields';
  /** Random, for all frames of one mount. */
  mount: string;
  /** Type of the token, or `cvc`. */
  type: string;
  look: Look;
  /** For the frame that creates the token only, and of the session in the address of that frame. */
  session_key?: string | undefined;
};

export type ToFrame =
  | { kind: 'look'; look: Look }
  | { kind: 'focus' }
  | { kind: 'clear' }
  /** @property fields those of the mount, which the frame looks for beside itself. A form of the type `cvc` saves its code. */
  | { kind: 'tokenize'; fields: FieldName[]; metadata?: Record<string, string> | undefined };

export type FromFrame =
  | { kind: 'ready' }
  | { kind: 'state'; state: FieldState }
  | { kind: 'height'; px: number }
  /** The person pressed Enter. */
  | { kind: 'submit' }
  | { kind: 'token'; token: Token }
  | { kind: 'saved'; saved: SavedCode }
  | { kind: 'failed'; code: FieldsErrorCode; errors?: FieldProblems | undefined };

export type FieldProblems = Partial<Record<FieldName, FieldProblem>>;
