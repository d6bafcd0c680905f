// How the frames of one mount reach each other: through the windows of the page, as the same-origin policy allows. A frame of
// another origin cannot read `strongroomFields`, and neither can the page.
import type { FieldName, FieldProblem } from '../src/protocol.ts';
import type { BrandRules } from './brands.ts';

export type Sibling = {
  session: string;
  mount: string;
  field: FieldName;
  /** Shows what is wrong with the field. */
  check(): FieldProblem | undefined;
  /** What was typed. Only where there is no problem. */
  data(): unknown;
  clear(): void;
  /** Of the frame of a card number. */
  brand: BrandRules | undefined;
  /** Call after the brand has changed. */
  show(): void;
};

declare global {
  interface Window {
    strongroomFields?: Sibling;
  }
}

const siblingIn = (other: Window): Sibling | undefined => {
  try {
    return other.strongroomFields;
  } catch {
    // A window of another origin.
    return undefined;
  }
};

/** The frames of the same session and mount, this one included. */
export const siblingsOf = ({ session, mount }: Sibling): Sibling[] =>
  Array.from({ length: parent.length }, (_, at) => siblingIn(parent[at] as Window)).filter(
    (each): each is Sibling => each?.session === session && each.mount === mount,
  );
