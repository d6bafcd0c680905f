// How the frames of one form reach each other: through the windows of the page, as the same-origin policy allows. A frame of
// another origin cannot read `strongroomFields`, and neither can the page.
import type { FieldName, FieldProblem } from '../src/protocol.ts';
import type { BrandRules } from './brands.ts';

export type Sibling = {
  session: string;
  mount: string;
  /** Type of the token that the form makes. */
  type: string;
  field: FieldName;
  /** Shows what is wrong with the field. */
  check(): FieldProblem | undefined;
  /** What was typed. Only where there is no problem. */
  data(): unknown;
  clear(): void;
  /** Brand in the frame of a card number. */
  brand: BrandRules | undefined;
  /** Call after the brand has changed. */
  show(): void;
};

declare global {
  interface Window {
    strongroomFields?: Sibling;
  }
}

/** What a window has of the form. A window of another origin has nothing. */
const siblingsIn = (other: Window, { session, mount, type }: Sibling): Sibling[] => {
  try {
    const found = other.strongroomFields;
    // Read inside of the `try`: another origin may name a frame of its own `strongroomFields`, whose properties throw.
    return found?.session === session && found.mount === mount && found.type === type ? [found] : [];
  } catch {
    return [];
  }
};

/** The frames of the same form, this one included: of one session, mount and type. */
export const siblingsOf = (own: Sibling): Sibling[] =>
  Array.from({ length: parent.length }, (_, at) => siblingsIn(parent[at] as Window, own)).flat();
