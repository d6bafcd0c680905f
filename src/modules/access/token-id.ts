// What an id of a token cannot have, for ids that clients choose and for expressions.

export const TOKEN_ID_LENGTH_MIN = 3;
export const TOKEN_ID_LENGTH_MAX = 400;

/** Characters with a meaning in a URL path or in an expression. Ids of earlier versions may have them: expressions cannot name these. */
export const TOKEN_ID_EXCLUDED = '# / \\ + ? [ ] | & = % < > { } ^';

export const notInTokenId = new RegExp(`[${TOKEN_ID_EXCLUDED.replaceAll(/[^ ]/g, '\\$&').replaceAll(' ', '')}]`);

/**
 * Line ends, other control characters and invisible characters, such as those that change the direction of text: two ids that
 * look the same must be the same.
 */
export const hiddenCharacter = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Cs}]/u;

/** The ids of token intents begin like this, and those of other tokens do not. */
export const INTENT_PREFIX = 'intent-';

export const newIntentId = (uuid: string): string => INTENT_PREFIX + uuid;

export const isIntentId = (id: string): boolean => id.startsWith(INTENT_PREFIX);

/** For SQL: the ids of intents. */
export const INTENT_PATTERN = `${INTENT_PREFIX}%`;

/** `{{ token: id }}` is the whole record of a token: an id must not begin like this. */
export const TOKEN_PREFIX = 'token:';
