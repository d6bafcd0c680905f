// The table of every variable, made from the schema that parses them: the README cannot say something else.
import { environmentSchema } from '../config.ts';

const cell = (text: string): string => text.replaceAll('|', '\\|');

/** @returns a Markdown table: variable, default, meaning. */
export const configurationTable = (): string => {
  const rows = Object.entries(environmentSchema.shape).map(([name, schema]) => {
    const parsed = schema.safeParse(undefined);
    const value = name === 'CVC_TTL' ? '1h' : parsed.success ? parsed.data : undefined;
    const shown = value === undefined ? '' : `\`${String(value)}\``;
    return `| \`${name}\` | ${shown} | ${cell(schema.description ?? '')} |`;
  });
  return ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n');
};

const between = /(<!-- configuration -->\n)[\s\S]*?(<!-- \/configuration -->)/;

/** @returns the README with today's table between its marks. */
export const withConfigurationTable = (readme: string): string =>
  readme.replace(between, (_, open: string, close: string) => `${open}${configurationTable()}\n${close}`);
