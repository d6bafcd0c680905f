// The entry point of @strongroom/fields: forms for a card, a bank account, one value, or the
// security code of a stored card, in frames of a vault.
import { type CodeForm, createCodeForm, createForm, type Form } from './form.ts';
import { BANK_FIELDS, type Brand, CARD_FIELDS, TEXT_FIELDS } from './protocol.ts';

export { type CodeForm, FieldsError, type Form, type FormEvents, type FormState, type MountOptions } from './form.ts';
export type * from './protocol.ts';

/** The version of this library, and of the frames that it loads. The build sets it. */
declare const FIELDS_VERSION: string;

export type CardField = (typeof CARD_FIELDS)[number];
export type BankField = (typeof BANK_FIELDS)[number];

/** @property session the answer of the vault to `POST /sessions`, which a backend passes on. */
export type FieldsOptions = { origin: string; session: { id: string; session_key: string } };

export type Fields = {
  /** `number` must be mounted, the others may. */
  card(): Form<CardField>;
  /** `account_number` must be mounted. */
  bank(): Form<BankField>;
  /** One `value` of a token type of the session, such as `social_security_number`. */
  text(type: string): Form<'value'>;
  /**
   * The security code of the stored card that the session is for. The vault tells the frame how long it is.
   * @param options `brand` is what `state.brand` says, where the page shows one.
   */
  securityCode(options?: { brand?: Brand | undefined }): CodeForm;
};

/** @param options `origin` is where the vault serves its frames, such as `https://vault.example.com`. */
export const createFields = (options: FieldsOptions): Fields => {
  const { id, session_key } = options.session;
  // A copy with the two names, and an origin without a path: the answer of the vault has more.
  const place = { origin: new URL(options.origin).origin, version: FIELDS_VERSION, session: { id, session_key } };
  return {
    card: () => createForm(place, 'card', CARD_FIELDS),
    bank: () => createForm(place, 'bank', BANK_FIELDS),
    text: (type) => createForm(place, type, TEXT_FIELDS),
    securityCode: ({ brand } = {}) => createCodeForm(place, brand),
  };
};
