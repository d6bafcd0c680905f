// Finds a record by its name or its id. Names need not be unique in a vault, so two of one name are an error.
import { nearestName } from '../../../src/platform/base/unknown-names.ts';
import { CliError, EXIT } from './exit-codes.ts';
import { cleanText } from './io.ts';

type Named = { id: string; name: string };

type Resource<Item extends Named> = {
  get(id: string): Promise<Item>;
  list(query: { name?: string; size?: number }): AsyncIterable<Item>;
};

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const SIZE = 100;

export const isId = (text: string): boolean => UUID.test(text);

/** The records of a list that goes on until its end. */
export const readAll = async <Item>(list: AsyncIterable<Item>, most = Infinity): Promise<Item[]> => {
  const items: Item[] = [];
  if (most === 0) return items;
  for await (const item of list) if (items.push(item) >= most) break;
  return items;
};

/**
 * @param noun of the record, such as `proxy`.
 * @throws CliError where no record, or more than one, has the name. StrongroomError for an id that is not there.
 */
export const findRecord = async <Item extends Named>(
  resource: Resource<Item>,
  noun: string,
  given: string,
): Promise<Item> => {
  if (isId(given)) return resource.get(given);
  const all = await readAll(resource.list({ size: SIZE }));
  const found = all.filter(({ name }) => name === given);
  const [only, another] = found;
  const name = cleanText(given);
  if (another)
    throw new CliError(
      `${found.length} records of the kind ${noun} have the name "${name}". Name one by its id: ${found.map(({ id }) => id).join(', ')}.`,
    );
  if (only) return only;
  const nearest = nearestName(
    given,
    all.map((each) => each.name),
  );
  const hint = nearest === undefined ? '' : ` Did you mean "${cleanText(nearest)}"?`;
  throw new CliError(`There is no ${noun} with the name "${name}".${hint}`, EXIT.notFound);
};
