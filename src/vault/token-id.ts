// What the id of a token cannot contain: one rule for ids that callers choose, and for expressions that name them. Ids of
// earlier versions may break it; they are read as before, but no expression can name them.

export const TOKEN_ID_LENGTH_MAX = 400;

/** What means something in a URL path or in an expression. */
export const notInTokenId = /[#/\\+?[\]|&=%<>{}^]/;

/**
 * Line ends, other controls, and characters that no one sees, such as those that turn the direction of text: two ids that
 * look the same must be the same.
 */
export const hiddenCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Cs}]/u;
