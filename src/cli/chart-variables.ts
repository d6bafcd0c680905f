// The names that the Helm chart takes: variables that are no secrets, and keys of its secret. They are in its values.schema.json.
import { environmentSchema, fileVariables } from '../platform/config/config.ts';

/** Secrets, which are files: VAULT_TOKEN_FILE is a variable of its own. */
const secrets: readonly string[] = [...fileVariables, 'VAULT_TOKEN'];

/** Variables that the chart sets itself, and those that a server in production must not have. */
const notOfOperator = new Set([
  'MIGRATE_ON_START',
  'DRAIN_SECONDS',
  'STRONGROOM_COMMAND',
  'METRICS_PORT',
  'METRICS_HOST',
  'NODE_ENV',
  'HOST',
  'PORT',
  'DATA_DIR',
  'ALLOW_DEV_ON_NETWORK',
  'STRONGROOM_DEV_KEY',
  'TEST_ENDPOINTS',
  'TEST_TEMPLATE_DIR',
  'BOOTSTRAP_API_KEY_FILE',
  'VAULT_TOKEN_FILE',
]);

const chartNames = {
  variables: Object.keys(environmentSchema.shape).filter((name) => !secrets.includes(name) && !notOfOperator.has(name)),
  secretKeys: secrets.map((name) => name.toLowerCase()),
};

/** @param schema the text of values.schema.json. @returns it with the names of today. */
export const withChartNames = (schema: string): string =>
  Object.entries(chartNames).reduce(
    (text, [part, names]) =>
      text.replace(
        new RegExp(`("${part}Known": \\{\\s*"enum": \\[)[^\\]]*\\]`),
        (_, open: string) => `${open}\n${names.map((name) => `        "${name}"`).join(',\n')}\n      ]`,
      ),
    schema,
  );
