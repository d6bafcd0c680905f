// Searching by name: `*` is any run of characters, everything else stands for itself, and case does not count. Names are
// kept a second time as they are compared, in byte order, so that an index serves whole names and beginnings of names.

/** A name as searches compare it. Ours, not the database's: its idea of case depends on its locale. */
export const searchNameOf = (name: string): string => name.normalize('NFC').toLowerCase();

/** Which rows a search for a name finds. @param add puts a value among the parameters and says how the text names it. */
export const nameCondition = (name: string, add: (value: string) => string): string => {
  const wanted = searchNameOf(name);
  if (!wanted.includes('*')) return `search_name = ${add(wanted)}`;
  const pattern = wanted.replace(/[\\%_]/g, '\\$&').replace(/\*+/g, '%');
  return `search_name LIKE ${add(pattern)}`;
};
