// A condition on tokens as a tree, made of a search query and of access rules.

/** Values become parameters of the statement, never part of its text. */
export type TokenCondition =
  | { kind: 'and' | 'or'; nodes: TokenCondition[] }
  | { kind: 'not'; node: TokenCondition }
  | { kind: 'in'; column: 'id' | 'type' | 'fingerprint' | 'container' | 'created_by' | 'modified_by'; values: string[] }
  | { kind: 'starts_with'; column: 'id' | 'container'; prefix: string }
  /** Without a mask, of its own or of its type. */
  | { kind: 'unmasked' }
  /** Without a bound that names where the value may go: such a value is read by nobody. */
  | { kind: 'readable' }
  | { kind: 'nothing' }
  /** One of the keyed digests that the token can be found by. */
  | { kind: 'digest'; digest: string }
  | { kind: 'range'; column: 'created_at' | 'modified_at'; from?: Bound | undefined; to?: Bound | undefined };

export type Bound = { at: Date; inclusive: boolean };
