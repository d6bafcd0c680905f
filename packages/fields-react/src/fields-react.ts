// React hooks for @strongroom/fields: each mounts the frames into the elements that get its refs, and follows their state.
import {
  type BankField,
  type Brand,
  type CardField,
  type CodeForm,
  createFields,
  type FieldName,
  type FieldsError,
  type FieldsOptions,
  type Form,
  type FormState,
  type MountOptions,
} from '@strongroom/fields';
import { useEffect, useMemo, useRef, useState } from 'react';

/** What a hook gives of a form. */
type Used<Field extends FieldName> = Pick<Form<Field>, 'focus' | 'clear'> & {
  /** Give it to the element that holds the field: `<div ref={card.ref('number')} />`. Fields without an element are left out. */
  ref(field: Field): (element: Element | null) => void;
  isReady: boolean;
  /** Undefined until the first change of the session. */
  state: FormState<Field> | undefined;
  /** The last error event of the session. */
  error: FieldsError | undefined;
};

export type UsedForm<Field extends FieldName> = Used<Field> & Pick<Form<Field>, 'tokenize'>;

export type UsedSecurityCode = Used<'cvc'> & Pick<CodeForm, 'save'>;

/** What a form has told its page. */
type Heard<Field extends FieldName> = Pick<Used<Field>, 'isReady' | 'state' | 'error'>;

const NOTHING = { isReady: false, state: undefined, error: undefined };

const useMounted = <Field extends FieldName>(
  form: Omit<Form<Field>, 'tokenize'>,
  options: MountOptions,
): Used<Field> => {
  const targets = useRef<Partial<Record<Field, Element>>>({});
  const [heard, setHeard] = useState<Heard<Field> & { of?: object }>(NOTHING);
  const key = JSON.stringify(options);

  useEffect(() => {
    setHeard({ of: form, ...NOTHING });
    const hear = (news: Partial<Heard<Field>>): void => setHeard((before) => ({ ...before, ...news }));
    const ends = [
      form.on('ready', () => hear({ isReady: true })),
      form.on('change', (state) => hear({ state })),
      form.on('error', (error) => hear({ error })),
    ];
    form.mount(targets.current, options);
    return () => {
      for (const end of ends) end();
      form.unmount();
    };
    // Other options do not mount again: they are sent to the frames below.
  }, [form]);
  useEffect(() => form.update(options), [form, key]);

  // What the form of another session said is over, also while this one is not mounted yet.
  const { isReady, state, error } = heard.of === form ? heard : NOTHING;
  return {
    isReady,
    state,
    error,
    focus: form.focus,
    clear: form.clear,
    ref: (field) => (element) => {
      if (element) targets.current[field] = element;
      else delete targets.current[field];
    },
  };
};

const useForm = <Field extends FieldName>(form: Form<Field>, options: MountOptions): UsedForm<Field> => ({
  ...useMounted(form, options),
  tokenize: form.tokenize,
});

/** Another session mounts the fields again. */
const useFields = ({ origin, session }: FieldsOptions) =>
  useMemo(() => createFields({ origin, session }), [origin, session.id]);

export const useCard = (place: FieldsOptions, options: MountOptions = {}): UsedForm<CardField> => {
  const fields = useFields(place);
  return useForm(
    useMemo(() => fields.card(), [fields]),
    options,
  );
};

export const useBank = (place: FieldsOptions, options: MountOptions = {}): UsedForm<BankField> => {
  const fields = useFields(place);
  return useForm(
    useMemo(() => fields.bank(), [fields]),
    options,
  );
};

/** @param type a token type of the session, such as `social_security_number`. */
export const useText = (type: string, place: FieldsOptions, options: MountOptions = {}): UsedForm<'value'> => {
  const fields = useFields(place);
  return useForm(
    useMemo(() => fields.text(type), [fields, type]),
    options,
  );
};

/** The security code of the stored card that the session is for. @param brand what `state.brand` says. */
export const useSecurityCode = (
  place: FieldsOptions,
  { brand, ...options }: MountOptions & { brand?: Brand | undefined } = {},
): UsedSecurityCode => {
  const fields = useFields(place);
  const form = useMemo(() => fields.securityCode({ brand }), [fields, brand]);
  return { ...useMounted(form, options), save: form.save };
};
