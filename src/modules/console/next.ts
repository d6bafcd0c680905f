// The page to continue with after signing in.

export const HOME = '/console';

const NEXT_LENGTH_MAX = 2_000;

/** Only a page of the console, in any spelling of the URL. */
export const parseNext = (text: unknown): string => {
  const isValid = typeof text === 'string' && text.length <= NEXT_LENGTH_MAX && /^\/[\x21-\x5b\x5d-\x7e]*$/.test(text);
  // Parsed like a browser does, relative to a host that does not exist.
  const url = isValid ? URL.parse(text, 'https://vault.invalid') : null;
  if (url?.host !== 'vault.invalid') return HOME;
  const isPage = url.pathname === HOME || url.pathname.startsWith(`${HOME}/`);
  return isPage && !/^\/console\/(?:sign-|second-factor|sso\/)/.test(url.pathname) ? url.pathname + url.search : HOME;
};
