// React hooks for @strongroom/fields: each mounts the frames into the elements that get its refs, and follows their state.
import { createFields, type FieldName, type FieldsError, type FieldsOptions } from '@strongroom/fields';
import type { BankField, CardField, Form, FormState, MountOptions } from '@strongroom/fields';
import { useEffect, useMemo, useRef, useState } from 'react';

export type UsedForm<Field extends FieldName> = Pick<Form<Field>, 'tokenize' | 'focus' | 'clear'> & {
  /** Give it to the element that holds the field: `<div ref={card.ref('number')} />`. Fields without an element are left out. */
  ref(field: Field): (element: Element | null) => void;
  isReady: boolean;
  /** Undefined until the first change. */
  state: FormState<Field> | undefined;
  /** The last error event. */
  error: FieldsError | undefined;
};

const useForm = <Field extends FieldName>(form: Form<Field>, options: MountOptions): UsedForm<Field> => {
  const targets = useRef<Partial<Record<Field, Element>>>({});
  const [isReady, setReady] = useState(false);
  const [state, setState] = useState<FormState<Field>>();
  const [error, setError] = useState<FieldsError>();
  const key = JSON.stringify(options);

  useEffect(() => {
    setReady(false);
    const ends = [form.on('ready', () => setReady(true)), form.on('change', setState), form.on('error', setError)];
    form.mount(targets.current, options);
    return () => {
      for (const end of ends) end();
      form.unmount();
    };
    // Other options do not mount again: they are sent to the frames below.
  }, [form]);
  useEffect(() => form.update(options), [form, key]);

  return {
    isReady,
    state,
    error,
    tokenize: form.tokenize,
    focus: form.focus,
    clear: form.clear,
    ref: (field) => (element) => {
      if (element) targets.current[field] = element;
      else delete targets.current[field];
    },
  };
};

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
