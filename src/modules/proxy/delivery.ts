// What happened to the destination of a forwarded request. What must know it, such as the record of a request that may be repeated,
// asks here and nowhere else.

/**
 * How far a request got. `nothing`: no byte of it has left the vault. `sent`: some may have, so the destination may have acted.
 * `answered`: the head of its response has come.
 */
export type Reached = 'nothing' | 'sent' | 'answered';

/** One attempt to send a request. */
export class Delivery {
  #reached: Reached = 'nothing';
  #status: number | undefined;
  readonly #beforeSending: (() => Promise<void>) | undefined;

  /** @param beforeSending must resolve before the first byte leaves. Where it rejects, nothing is sent. Undefined costs nothing. */
  constructor(beforeSending?: () => Promise<void>) {
    this.#beforeSending = beforeSending;
  }

  get reached(): Reached {
    return this.#reached;
  }

  /** The status of the destination; undefined until it has answered. */
  get status(): number | undefined {
    return this.#status;
  }

  /** The next step sends, or runs code that may. @returns what to wait for before that. */
  sending = (): Promise<void> | undefined => {
    if (this.#reached !== 'nothing') return undefined;
    if (!this.#beforeSending) {
      this.#reached = 'sent';
      return undefined;
    }
    return this.#beforeSending().then(() => {
      this.#reached = 'sent';
    });
  };

  /** Code that could have sent something has sent nothing. */
  notSent(): void {
    if (this.#reached === 'sent') this.#reached = 'nothing';
  }

  answered(status: number): void {
    this.#reached = 'answered';
    this.#status = status;
  }
}
