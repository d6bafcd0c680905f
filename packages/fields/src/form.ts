// The fields of one form in a page: mounts their frames, tells the page their state, and has them create a token, or send the security
// code of a stored card.
import { english } from './labels.ts';
import { mountFrame, type MountedFrame } from './mounted-frame.ts';
import {
  type Brand,
  CODE_FIELDS,
  CODE_TYPE,
  type FieldName,
  type FieldProblems,
  type FieldsErrorCode,
  type FieldsLabels,
  type FieldsStyle,
  type FieldState,
  type FromFrame,
  type Look,
  type SavedCode,
  type Token,
} from './protocol.ts';

export type MountOptions = {
  style?: FieldsStyle;
  labels?: FieldsLabels;
  /** A language tag, such as `de`. */
  locale?: string;
  /** Labels are for screen readers only: the page has its own. */
  hideLabels?: boolean;
};

export type FormState<Field extends FieldName = FieldName> = {
  /** All fields are complete and right. */
  complete: boolean;
  /** No field shows a problem. */
  valid: boolean;
  empty: boolean;
  brand: Brand | undefined;
  errors: Partial<Record<Field, NonNullable<FieldState['problem']>>>;
  fields: Partial<Record<Field, FieldState>>;
};

export type FormEvents<Field extends FieldName = FieldName> = {
  /** All frames can be typed in. */
  ready: () => void;
  change: (state: FormState<Field>) => void;
  /** The person pressed Enter. */
  submit: () => void;
  error: (error: FieldsError) => void;
};

export class FieldsError extends Error {
  readonly code: FieldsErrorCode;
  /** Problems of the fields, for `invalid_fields`. */
  readonly errors: FieldProblems;
  /** Field whose frame is missing, for `frame_missing`. */
  readonly field: FieldName | undefined;
  constructor(code: FieldsErrorCode, { errors = {}, field }: { errors?: FieldProblems; field?: FieldName } = {}) {
    super(`Strongroom fields: ${code}`);
    this.name = 'FieldsError';
    this.code = code;
    this.errors = errors;
    this.field = field;
  }
}

export type Form<Field extends FieldName = FieldName> = {
  /**
   * Puts the frames into elements of the page, or what selectors find.
   * @throws FieldsError `unmounted` where an element is missing.
   */
  mount(targets: Partial<Record<Field, string | Element>>, options?: MountOptions): void;
  /** @returns what ends the subscription. */
  on<Name extends keyof FormEvents<Field>>(name: Name, listener: FormEvents<Field>[Name]): () => void;
  /** Stores what was typed, then clears the fields. A second call meanwhile gets the same token. @throws FieldsError. */
  tokenize(options?: { metadata?: Record<string, string> }): Promise<Token>;
  focus(field?: Field): void;
  clear(): void;
  /** Changes style, labels or language; what is left out stays. */
  update(options: MountOptions): void;
  unmount(): void;
};

export type FormPlace = { origin: string; version: string; session: { id: string; session_key: string } };

/** @param names the fields that the form may have. The first one, which must be mounted, creates the token. */
export const createForm = <Field extends FieldName>(
  place: FormPlace,
  type: string,
  names: readonly Field[],
): Form<Field> => {
  const { send, ...form } = createSender<Field, Token>(place, type, names);
  return { ...form, tokenize: send };
};

/** The security code of a stored card, in one field. */
export type CodeForm = Omit<Form<'cvc'>, 'tokenize'> & {
  /** Replaces the code of the card, then clears the field. A second call meanwhile gets the same result. @throws FieldsError. */
  save(): Promise<SavedCode>;
};

/** @param brand what `state.brand` says. How long the code is, the frame knows from the vault. */
export const createCodeForm = (place: FormPlace, brand: Brand | undefined): CodeForm => {
  const { send, ...form } = createSender<'cvc', SavedCode>(place, CODE_TYPE, CODE_FIELDS, brand);
  return { ...form, save: () => send() };
};

/** A form, with the function that has its first frame send what was typed. */
type Sender<Field extends FieldName, Result> = Omit<Form<Field>, 'tokenize'> & {
  send(options?: { metadata?: Record<string, string> }): Promise<Result>;
};

/** @param names the fields that the form may have. The first one must be mounted, and sends what was typed. */
const createSender = <Field extends FieldName, Result extends Token | SavedCode>(
  { origin, version, session }: FormPlace,
  type: string,
  names: readonly Field[],
  brand?: Brand,
): Sender<Field, Result> => {
  const leader = names[0] as Field;
  const listeners: { [Name in keyof FormEvents]: Set<(...args: never[]) => void> } = {
    ready: new Set(),
    change: new Set(),
    submit: new Set(),
    error: new Set(),
  };
  const frames = new Map<Field, MountedFrame>();
  const states = new Map<Field, FieldState>();
  let options: MountOptions = {};
  /** The call that is under way. */
  let call:
    | { promise: Promise<Result>; resolve: (result: Result) => void; reject: (error: FieldsError) => void }
    | undefined;

  const emit = (name: keyof FormEvents, payload?: unknown): void => {
    for (const listener of listeners[name]) (listener as (payload?: unknown) => void)(payload);
  };

  const fail = (error: FieldsError): void => {
    call?.reject(error);
    call = undefined;
    emit('error', error);
  };

  const lookOf = (): Look => ({ ...options, labels: { ...english, ...options.labels } });
  const titleOf = (field: Field): string => lookOf().labels[field] ?? field;

  const stateOfAll = (): FormState<Field> => {
    const all = [...frames.keys()].map((field) => [field, states.get(field)] as const);
    const errors = all.flatMap(([field, state]) => (state?.problem ? [[field, state.problem]] : []));
    return {
      complete: all.length > 0 && all.every(([, state]) => state?.complete),
      valid: errors.length === 0,
      empty: all.every(([, state]) => state?.empty ?? true),
      brand: brand ?? states.get(leader)?.brand,
      errors: Object.fromEntries(errors) as FormState<Field>['errors'],
      fields: Object.fromEntries(states) as FormState<Field>['fields'],
    };
  };

  const hear = (field: Field, message: FromFrame): void => {
    if (message.kind === 'state') {
      states.set(field, message.state);
      emit('change', stateOfAll());
    } else if (message.kind === 'submit') emit('submit');
    else if (message.kind === 'token' || message.kind === 'saved') {
      call?.resolve((message.kind === 'token' ? message.token : message.saved) as Result);
      call = undefined;
    } else if (message.kind === 'failed') {
      const { code, errors = {} } = message;
      // All frames of a session that has ended say so.
      if (code === 'session_expired' && field !== leader) return;
      names.find((name) => errors[name] && (frames.get(name)?.focus(), true));
      fail(new FieldsError(code, { errors }));
    }
  };

  const mount: Form<Field>['mount'] = (targets, given = {}) => {
    unmount();
    options = given;
    const places = names.flatMap((field) => {
      const target: string | Element | undefined = targets[field];
      if (target === undefined) return [];
      const element = typeof target === 'string' ? document.querySelector(target) : target;
      if (!element) throw new FieldsError('unmounted', { field });
      return [{ field, element }];
    });
    if (places[0]?.field !== leader) throw new FieldsError('unmounted', { field: leader });
    const mountId = crypto.randomUUID();
    for (const { field, element } of places) {
      const path = `/fields/${version}/frame/${session.id}/${field}`;
      const frame = mountFrame(
        { origin, path, field, target: element },
        titleOf(field),
        () => ({
          strongroom: 'fields',
          mount: mountId,
          type,
          look: lookOf(),
          session_key: field === leader ? session.session_key : undefined,
        }),
        (message) => hear(field, message),
        () => fail(new FieldsError('frame_missing', { field })),
      );
      frames.set(field, frame);
    }
    const mounted = [...frames.values()];
    void Promise.all(mounted.map(({ settled }) => settled)).then(() => {
      if (mounted.every((frame) => frame.isReady())) emit('ready');
    });
  };

  const unmount = (): void => {
    for (const frame of frames.values()) frame.remove();
    frames.clear();
    states.clear();
    call?.reject(new FieldsError('unmounted'));
    call = undefined;
  };

  const begin = async (metadata: Record<string, string> | undefined): Promise<void> => {
    const own = call;
    const mounted = [...frames];
    await Promise.all(mounted.map(([, { settled }]) => settled));
    // Unmounted meanwhile, or failed: that is told.
    if (call !== own) return;
    const missing = mounted.find(([, frame]) => !frame.isReady());
    if (missing) fail(new FieldsError('frame_missing', { field: missing[0] }));
    else frames.get(leader)?.send({ kind: 'tokenize', fields: [...frames.keys()], metadata });
  };

  return {
    mount,
    unmount,
    on: (name, listener) => {
      listeners[name].add(listener);
      return () => void listeners[name].delete(listener);
    },
    send: async ({ metadata } = {}) => {
      if (frames.size === 0) throw new FieldsError('unmounted');
      if (!call) {
        let resolve!: (result: Result) => void;
        let reject!: (error: FieldsError) => void;
        const promise = new Promise<Result>((...both) => ([resolve, reject] = both));
        call = { promise, resolve, reject };
        // What cannot be sent to a frame is no metadata.
        begin(metadata).catch(() => fail(new FieldsError('refused')));
        return promise;
      }
      return call.promise;
    },
    focus: (field = leader) => frames.get(field)?.focus(),
    clear: () => {
      for (const frame of frames.values()) frame.send({ kind: 'clear' });
    },
    update: (changed) => {
      options = { ...options, ...changed };
      for (const [field, frame] of frames) {
        frame.retitle(titleOf(field));
        frame.send({ kind: 'look', look: lookOf() });
      }
    },
  };
};
